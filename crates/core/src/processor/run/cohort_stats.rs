//! The counters of one running cohort.

use std::cell::Cell;

use crate::metrics::counters::{StageCounters, cohort_bucket};

/// Increments a counter.
#[inline(always)]
pub(crate) fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

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

/// The counts that one cohort adds to its stage's counters. Most operations are started and completed, so these two
/// counts are derived from `size` and the other counts. The fields are cells, because a panic may leave the loop at any
/// operation.
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
    /// The size at which the cohort starts no more operations: the stage's maximum, or zero while the interleave ring
    /// is full.
    pub(crate) limit: Cell<usize>,
    /// The number of resumptions after prefetches, and the number at which the cohort next reads the clock.
    pub(crate) fetched: Cell<usize>,
    pub(crate) fetched_clock_read: Cell<usize>,
    /// The number of remote operations that still have to run first in this cohort.
    pub(crate) remote_left: Cell<usize>,
    /// The size at which the cohort next checks the clock and the thresholds.
    pub(crate) next_check: Cell<usize>,
    /// The size at which the cohort next reads the clock.
    pub(crate) next_clock_read: Cell<usize>,
    /// The nanoseconds taken by preempting cohorts of other stages.
    pub(crate) interrupted: Cell<u64>,
}

impl CohortStats {
    /// Adds the cohort, which found `waiting` operations and took `time` nanoseconds, to its stage's counters.
    pub(crate) fn record(&self, counters: &StageCounters, waiting: usize, time: u64) {
        let size = self.size.get() as u64;
        counters.queue_length.set(waiting as u64);
        counters.queue_length_max.raise_to(waiting as u64);
        counters.queue_length_sum.add(waiting as u64);
        let run = size - self.ended.get();
        let resumed = self.resumptions.get();
        counters.started.add(run - resumed);
        counters.started_wait.add(self.started.total.get());
        counters.started_wait_max.raise_to(self.started.longest.get());
        counters.resumed.add(resumed);
        counters.resumed_wait.add(self.resumed.total.get());
        counters.resumed_wait_max.raise_to(self.resumed.longest.get());
        counters.completed.add(run - self.suspended.get() - self.panicked.get());
        counters.suspended.add(self.suspended.get());
        counters.run.add(time);
        let mean = time / size.max(1);
        counters.run_max.raise_to(mean);
        counters.cohorts.add(1);
        counters.cohort_max.raise_to(size);
        counters.cohort_sizes[cohort_bucket(size)].add(1);
        let wait = self.started.total.get() + self.resumed.total.get();
        counters.waits.add(run, wait / run.max(1));
        counters.runs.add(run, mean);
    }
}
