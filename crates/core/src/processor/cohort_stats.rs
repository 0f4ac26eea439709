//! The counts of one running cohort.

use std::cell::Cell;

/// How long operations had waited.
#[derive(Default)]
pub(crate) struct WaitStats {
    pub(crate) total: Cell<u64>,
    pub(crate) longest: Cell<u64>,
}

impl WaitStats {
    #[inline(always)]
    pub(crate) fn add(&self, wait: u64) {
        self.total.set(self.total.get() + wait);
        if wait > self.longest.get() {
            self.longest.set(wait);
        }
    }
}

/// The counts that one cohort adds to its stage's counters. The usual case is an operation that is started and
/// completed, so these two are not counted but what remains of `size`. Cells, since a panic may
/// leave the loop at any operation.
#[derive(Default)]
pub(crate) struct CohortStats {
    pub(crate) started: WaitStats,
    pub(crate) resumed: WaitStats,
    /// Operations that this cohort resumed.
    pub(crate) resumptions: Cell<u64>,
    pub(crate) ended: Cell<u64>,
    pub(crate) suspended: Cell<u64>,
    pub(crate) panicked: Cell<u64>,
    pub(crate) size: Cell<usize>,
    /// No operation is started beyond this size: the stage's count, or none while as many as may
    /// wait for prefetches.
    pub(crate) limit: Cell<usize>,
    /// Resumptions after prefetches, and the number at which the cohort reads the clock.
    pub(crate) fetched: Cell<usize>,
    pub(crate) fetched_clock_read: Cell<usize>,
    /// So many envelopes of other processors go first in this cohort.
    pub(crate) remote_left: Cell<usize>,
    /// The size at which is looked up from the work.
    pub(crate) next_check: Cell<usize>,
    /// The size at which the cohort reads the clock.
    pub(crate) next_clock_read: Cell<usize>,
    /// Nanoseconds that other stages' cohorts took which interrupted this one.
    pub(crate) interrupted: Cell<u64>,
}
