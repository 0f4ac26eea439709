//! SIGUSR1 has the log opened anew, as programs that rotate logs expect.

use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;

use crate::log::sink::Sink;

/// Listens until dropped.
pub(crate) struct Reopening(Option<SigId>);

impl Reopening {
    /// For this log.
    pub(crate) fn of(sink: &Sink) -> Self {
        // Refused for signals that no program may take, which this one is not.
        Self(signal_hook::flag::register(SIGUSR1, sink.reopen()).ok())
    }
}

impl Drop for Reopening {
    fn drop(&mut self) {
        self.0.take().map(signal_hook::low_level::unregister);
    }
}
