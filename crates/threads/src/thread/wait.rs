//! Waits that signal handlers interrupt.
//!
//! A handler that waits removes the thread's own node from the parking table, and consumes notifications of the thread.
//! If it runs after the thread has checked whether to wait but before it parks, nothing would end the park.

use crate::thread::Thread;

/// The beginning of a wait, before the thread checks whether to wait.
#[derive(Clone, Copy)]
pub(crate) struct Wait(u32);

impl Wait {
    #[inline]
    pub(crate) fn begin(thread: &Thread) -> Wait {
        Wait(thread.disturbances.get())
    }

    /// Whether a handler has waited since then, so that the thread must check again.
    #[inline]
    pub(crate) fn is_disturbed(self, thread: &Thread) -> bool {
        self.0 != thread.disturbances.get()
    }
}

/// Records that a handler has removed a node from the table or consumed a notification, which may belong to interrupted
/// code.
#[inline]
pub(crate) fn disturb(thread: &Thread) {
    thread.disturbances.set(thread.disturbances.get().wrapping_add(1));
}
