//! Notifications of parked threads.

use core::sync::atomic::Ordering;

use crate::thread::{NOTIFIED, PARKED, RUNNING, Thread};
use crate::{sys, wake};

/// Notifies a thread.
pub(crate) fn unpark(thread: &Thread) {
    if thread.state.swap(NOTIFIED, Ordering::AcqRel) != PARKED {
        return;
    }
    // A parked thread does not change its place.
    match thread.is_convertible() {
        true => {
            thread.state.store(RUNNING, Ordering::Relaxed);
            wake::make_runnable(thread);
        }
        false => sys::futex_wake(&raw const thread.state, 1),
    }
}
