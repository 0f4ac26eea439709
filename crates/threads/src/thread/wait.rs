//! Waits that handlers of signals interrupt.
//!
//! A handler that waits takes the thread's own node out of the parking table, and notifications of the thread. If it runs
//! after the thread has looked whether it has to wait, and before it parks, nothing would end the park.

use crate::thread::Thread;

/// The begin of a wait, before the thread looks whether it has to wait.
#[derive(Clone, Copy)]
pub(crate) struct Wait(u32);

impl Wait {
    #[inline]
    pub(crate) fn begin(thread: &Thread) -> Wait {
        Wait(thread.disturbances.get())
    }

    /// Whether a handler has waited since. The thread then has to look again.
    #[inline]
    pub(crate) fn is_disturbed(self, thread: &Thread) -> bool {
        self.0 != thread.disturbances.get()
    }
}

/// Records that a node was taken out of the table, or a notification was taken, which may be those of interrupted code.
#[inline]
pub(crate) fn disturb(thread: &Thread) {
    thread.disturbances.set(thread.disturbances.get().wrapping_add(1));
}
