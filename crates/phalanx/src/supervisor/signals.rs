//! Handling of SIGINT and SIGTERM.

use std::io;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Iterator};

use super::Event;
use crate::diagnostics::stuck;

/// How long the supervisor may take to exit the process before the signal thread exits it.
const SUPERVISOR_LIMIT: Duration = Duration::from_secs(1);

/// Handles signals until dropped.
pub(crate) struct Signals {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    pub(crate) fn listen(events: Sender<Event>) -> io::Result<Self> {
        let mut signals = Iterator::new([SIGINT, SIGTERM])?;
        let (handle, open) = (signals.handle(), signals.handle());
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            for (before, _) in signals.forever().enumerate() {
                if events.send(Event::Signal).is_err() {
                    break;
                }
                // The supervisor exits at the third signal unless foreign code blocks it.
                if before >= 2 {
                    std::thread::sleep(SUPERVISOR_LIMIT);
                    if !open.is_closed() {
                        stuck::exit();
                    }
                }
            }
        })?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
