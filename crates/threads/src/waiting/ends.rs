//! Ends of threads, for which other threads wait.

use core::sync::atomic::Ordering;

use crate::thread::Thread;
use crate::waiting::table;

/// The key of a thread's end, which no address of an object is.
pub(crate) fn key(thread: &Thread) -> usize {
    thread.as_ptr() as usize | 1
}

/// Tells a thread that joins this one that it ends.
pub(crate) fn announce(thread: &Thread) {
    thread.has_ended.store(true, Ordering::SeqCst);
    table::wake(key(thread), usize::MAX);
}
