//! Notifications of parked threads.

use crate::schedule::wake;
use crate::system::sys;
use crate::thread::{Thread, state};

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
