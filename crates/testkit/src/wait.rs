//! Bounded waits.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of all waits. Only a failing test reaches it, also on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Repeats `attempt` every 5 ms until it returns a value.
///
/// # Panics
/// After [`TIMEOUT`], with `what`.
pub fn eventually<T>(condition: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "timed out: {condition}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test on a thread of its own.
///
/// # Panics
/// As the test does, or if it takes more than twice [`TIMEOUT`].
pub fn within_limit(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = channel();
    let body = thread::spawn(move || {
        test();
        let _ = sender.send(());
    });
    match receiver.recv_timeout(2 * TIMEOUT) {
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => body.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}
