//! Ends of threads, for which other threads wait.

use core::sync::atomic::Ordering;

use crate::thread::Thread;
use crate::waiting::table;

/// The key of a thread's end, which is not the address of any object.
pub(crate) fn key(thread: &Thread) -> usize {
    thread.as_ptr() as usize | 1
}

/// Notifies a thread that joins this one of its end.
pub(crate) fn announce(thread: &Thread) {
    thread.has_ended.store(true, Ordering::SeqCst);
    table::wake(key(thread), usize::MAX);
}
