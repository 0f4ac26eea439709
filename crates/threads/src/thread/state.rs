//! The state of a thread, by which the one that parks and those that notify it agree who continues it.

use core::sync::atomic::Ordering;

pub(crate) const RUNNING: u32 = 0;
pub(crate) const PARKED: u32 = 1;
pub(crate) const NOTIFIED: u32 = 2;

/// A word in memory; the models have words of their own.
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

/// Notifies a thread. Returns whether it is parked; the caller continues it.
#[inline]
pub(crate) fn notify(state: &impl Word) -> bool {
    state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
}

/// Makes a parked thread that has been notified runnable.
#[inline]
pub(crate) fn make_runnable(state: &impl Word) {
    state.store(RUNNING, Ordering::Relaxed);
}

/// Ends a park. Everything before an erased notification is visible to the caller, who checks its condition again.
#[inline]
pub(crate) fn resume(state: &impl Word) {
    state.swap(RUNNING, Ordering::AcqRel);
}
