//! The thread that writes lines to stderr. A processor never waits for stderr, which may be a full pipe.

use std::fmt;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use phalanx::runtime::use_slow_cores;

/// Maximum number of lines that wait to be written; further ones are dropped and counted.
const MAX_QUEUED_LINES: usize = 1024;

/// Maximum time to write the remaining lines when the broker ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A queue of lines, and the thread that writes them. The thread starts with the first line.
#[derive(Default)]
pub(super) struct Writer(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Running {
        lines: SyncSender<String>,
        /// Disconnected when the thread has ended.
        ended: Receiver<()>,
    },
    Closed,
}

impl Writer {
    /// Queues a line. Returns false if the queue is full.
    pub(super) fn write(&self, line: String) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Idle = *state {
            *state = start();
        }
        match &*state {
            State::Running { lines, .. } => lines.try_send(line).is_ok(),
            _ => false,
        }
    }

    /// Writes the queued lines, for a limited time, and ends the thread.
    pub(super) fn close(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Running { lines, ended } = std::mem::replace(&mut *state, State::Closed) {
            drop(lines);
            let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
                ended.recv_timeout(CLOSE_TIMEOUT);
        }
    }
}

/// Starts the thread. If the system cannot start a thread, no lines are written.
fn start() -> State {
    let (lines, queue) = sync_channel::<String>(MAX_QUEUED_LINES);
    let (end, ended) = sync_channel::<()>(0);
    let write = move || {
        let _end = end;
        use_slow_cores();
        for line in queue {
            // Fails if stderr is closed.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    };
    match thread::Builder::new().name("event-log".into()).spawn(write) {
        Ok(_) => State::Running { lines, ended },
        Err(_) => State::Closed,
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writer").finish()
    }
}
