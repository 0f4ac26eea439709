//! The state of a thread, by which the parking thread and its notifiers agree on which of them continues it.

use core::sync::atomic::Ordering;

pub(crate) const RUNNING: u32 = 0;
/// The thread has left its stack; the notifier makes it runnable.
pub(crate) const PARKED: u32 = 1;
pub(crate) const NOTIFIED: u32 = 2;
/// The thread waits at home, on a futex.
pub(crate) const PARKED_AT_HOME: u32 = 3;

/// A word in memory. Loom models implement it with loom's types.
pub(crate) trait Word {
    fn compare_exchange(&self, old: u32, new: u32, done: Ordering, failed: Ordering) -> bool;
    fn swap(&self, new: u32, order: Ordering) -> u32;
    fn store(&self, new: u32, order: Ordering);
}

impl Word for core::sync::atomic::AtomicU32 {
    #[inline]
    fn compare_exchange(&self, old: u32, new: u32, done: Ordering, failed: Ordering) -> bool {
        self.compare_exchange(old, new, done, failed).is_ok()
    }

    #[inline]
    fn swap(&self, new: u32, order: Ordering) -> u32 {
        self.swap(new, order)
    }

    #[inline]
    fn store(&self, new: u32, order: Ordering) {
        self.store(new, order);
    }
}

/// Parks a thread that has left its stack. Returns false if it has been notified, so it is runnable.
#[inline]
pub(crate) fn suspend(state: &impl Word) -> bool {
    let parked = state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire);
    if !parked {
        state.store(RUNNING, Ordering::Relaxed);
    }
    parked
}

/// Notifies a thread. Returns its state before; the caller continues a parked one.
#[inline]
pub(crate) fn notify(state: &impl Word) -> u32 {
    state.swap(NOTIFIED, Ordering::AcqRel)
}

/// Makes a parked thread that has been notified runnable.
#[inline]
pub(crate) fn make_runnable(state: &impl Word) {
    state.store(RUNNING, Ordering::Relaxed);
}

/// Ends a park at home that a handler has interrupted: the kernel does not restart a wait for another value.
pub(crate) fn end_park_at_home(state: &impl Word) {
    state.compare_exchange(PARKED_AT_HOME, RUNNING, Ordering::AcqRel, Ordering::Relaxed);
}

/// Ends a park. Everything before an erased notification is visible to the caller, who checks its condition again.
#[inline]
pub(crate) fn resume(state: &impl Word) {
    state.swap(RUNNING, Ordering::AcqRel);
}
