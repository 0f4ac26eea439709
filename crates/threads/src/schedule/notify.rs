//! Notifications of parked threads.

use crate::schedule::wake;
use crate::system::sys;
use crate::thread::Thread;
use crate::thread::state::{self, PARKED, PARKED_AT_HOME};

/// Notifies a thread.
pub(crate) fn unpark(thread: &Thread) {
    match state::notify(&thread.state) {
        PARKED => {
            state::make_runnable(&thread.state);
            wake::make_runnable(thread);
        }
        PARKED_AT_HOME => sys::futex_wake(&raw const thread.state, 1),
        _ => {}
    }
}
