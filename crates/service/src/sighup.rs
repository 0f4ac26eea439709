//! The thread that handles SIGHUP and shutdown.

use std::thread::JoinHandle;

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};

/// Handles SIGHUP on a separate thread until dropped.
#[must_use = "the handler is removed when dropped"]
pub struct SighupHandler {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Handle that ends the thread when it is closed.
pub type SighupHandle = Handle;

impl SighupHandler {
    /// Calls `reload` at each SIGHUP, and finally `stopping`; both may block. A SIGHUP that arrives during `reload` is
    /// handled after it has returned.
    ///
    /// Returns `None` if the system cannot create the thread; the server then ignores SIGHUP.
    pub fn spawn(
        mut reload: impl FnMut() + Send + 'static,
        stopping: impl FnOnce() + Send + 'static,
    ) -> Option<Self> {
        let mut signals = Signals::new([SIGHUP]).ok()?;
        let handle = signals.handle();
        let run = move || {
            for _ in signals.forever() {
                reload();
            }
            stopping();
        };
        let thread = std::thread::Builder::new().name("reload".into()).spawn(run).ok()?;
        Some(Self { handle, thread: Some(thread) })
    }

    /// Handle to close when the server stops.
    pub fn handle(&self) -> SighupHandle {
        self.handle.clone()
    }
}

impl Drop for SighupHandler {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn each_sighup_and_the_end_are_handled() {
        let (sender, receiver) = mpsc::channel();
        let last = sender.clone();
        let run = move || sender.send("hangup").unwrap();
        let sighup = SighupHandler::spawn(run, move || last.send("end").unwrap()).unwrap();
        for _ in 0..2 {
            signal_hook::low_level::raise(SIGHUP).unwrap();
            assert_eq!(receiver.recv(), Ok("hangup"));
        }
        sighup.handle().close();
        assert_eq!(receiver.recv(), Ok("end"));
    }
}
