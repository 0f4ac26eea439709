//! SIGUSR1 reopens the log, as log rotation tools expect.

use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;

use crate::log::sink::Sink;

/// Handles the signal until dropped.
pub(crate) struct Reopening(Option<SigId>);

impl Reopening {
    /// Installs the handler for this log.
    pub(crate) fn of(sink: &Sink) -> Self {
        // Registration fails only for signals that cannot be handled, which this is not.
        Self(signal_hook::flag::register(SIGUSR1, sink.reopen()).ok())
    }
}

impl Drop for Reopening {
    fn drop(&mut self) {
        self.0.take().map(signal_hook::low_level::unregister);
    }
}
