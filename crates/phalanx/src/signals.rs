//! Signals that ask the program to end.

use std::io;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Iterator};

use crate::supervisor::Event;

/// Listens until dropped.
pub(crate) struct Signals {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    pub(crate) fn listen(events: Sender<Event>) -> io::Result<Self> {
        let mut signals = Iterator::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                if events.send(Event::Signal).is_err() {
                    break;
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
