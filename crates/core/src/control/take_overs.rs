//! Take-overs: when a processor takes partitions over from sleeping ones, and when it gives them back
//! ([`crate::handle::policy::moving::take_over`]).

use std::cell::Cell;

use crate::stage_set::StageSet;

/// A processor that was not idle for this long, in nanoseconds, has no time for the work of others.
const SATURATED: u64 = 20_000_000;
/// The time after giving partitions back in which a processor takes none over, in nanoseconds.
const PAUSE: u64 = 16 * SATURATED;

/// The record of one processor.
#[derive(Default)]
pub(crate) struct TakeOvers {
    /// The last time at which the processor was idle.
    idle: Cell<u64>,
    /// The time from which partitions may be taken over again.
    allowed: Cell<u64>,
    /// The stages from which partitions were taken over.
    stages: Cell<StageSet>,
    /// The number of active processors; zero if all are.
    active: Cell<usize>,
}

impl TakeOvers {
    /// Records that the processor was idle.
    #[inline]
    pub(crate) fn was_idle(&self, now: u64) {
        self.idle.set(now);
    }

    /// Whether processor number `here`, the one of this record, may take partitions over.
    pub(crate) fn are_allowed(&self, now: u64, here: usize) -> bool {
        now >= self.allowed.get() && !self.is_saturated(now) && self.home(here) == here
    }

    pub(crate) fn taken(&self, stage: u8) {
        let mut stages = self.stages.get();
        stages.insert(stage.into());
        self.stages.set(stages);
    }

    /// The processor that should own a partition whose first owner is `first`.
    pub(crate) fn home(&self, first: usize) -> usize {
        match self.active.get() {
            0 => first,
            active if first < active => first,
            active => first % active,
        }
    }

    /// Sets the number of active processors.
    pub(crate) fn set_active(&self, active: usize) {
        self.active.set(active);
    }

    /// Whether the processor has partitions of others, and no time for them.
    pub(crate) fn must_give_back(&self, now: u64) -> bool {
        !self.stages.get().is_empty() && self.is_saturated(now)
    }

    /// The stages whose partitions are given back. For a while, none are taken over.
    pub(crate) fn give_back(&self, now: u64) -> StageSet {
        self.allowed.set(now + PAUSE);
        self.stages.take()
    }

    fn is_saturated(&self, now: u64) -> bool {
        now.saturating_sub(self.idle.get()) > SATURATED
    }
}
