//! The thread that hears SIGHUP, and that the server is stopping.

use std::sync::Arc;
use std::thread::JoinHandle;

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};

use crate::reload::Reloader;
use crate::reload::operator::Operator;

/// Listens until dropped.
pub(crate) struct Hangups {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Hangups {
    /// Has `operator` reload at each SIGHUP. None where the system gives no thread for it: then the
    /// server runs without.
    pub(crate) fn hear<O: Operator>(mut reloader: Reloader, operator: Arc<O>) -> Option<Self> {
        let mut signals = Signals::new([SIGHUP]).ok()?;
        let handle = signals.handle();
        let hear = move || {
            for _ in signals.forever() {
                operator.reload(&mut reloader);
            }
            operator.stopping();
        };
        let thread = std::thread::Builder::new().name("reload".into()).spawn(hear).ok()?;
        Some(Self { handle, thread: Some(thread) })
    }

    /// To be closed when the server stops.
    pub(crate) fn ends(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Hangups {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
