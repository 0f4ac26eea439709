//! Notifications of parked threads.

use crate::thread::Thread;
use crate::{state, sys, wake};

/// Notifies a thread.
pub(crate) fn unpark(thread: &Thread) {
    if !state::notify(&thread.state) {
        return;
    }
    // A parked thread does not change its place.
    match thread.is_convertible() {
        true => {
            state::make_runnable(&thread.state);
            wake::make_runnable(thread);
        }
        false => sys::futex_wake(&raw const thread.state, 1),
    }
}
