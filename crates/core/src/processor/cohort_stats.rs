//! The counters of one running cohort.

use std::cell::Cell;

/// The waiting times of operations.
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

/// The counts that one cohort adds to its stage's counters. Most operations are started and completed, so
/// these two counts are derived from `size` and the others. The fields are cells, since a panic may leave the
/// loop at any operation.
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
    /// The size beyond which no operation is started: the stage's bound, or zero while the interleave ring is
    /// full.
    pub(crate) limit: Cell<usize>,
    /// Resumptions after prefetches, and the number of them at which the cohort reads the clock.
    pub(crate) fetched: Cell<usize>,
    pub(crate) fetched_clock_read: Cell<usize>,
    /// Remote operations that are still to run first in this cohort.
    pub(crate) remote_left: Cell<usize>,
    /// The size at which the cohort next checks clock and thresholds.
    pub(crate) next_check: Cell<usize>,
    /// The size at which the cohort reads the clock.
    pub(crate) next_clock_read: Cell<usize>,
    /// Nanoseconds that preempting cohorts of other stages took.
    pub(crate) interrupted: Cell<u64>,
}
