//! Take-overs: when a processor takes partitions over from sleeping ones, and when it gives them back
//! ([`crate::handle::policy::moving::take_over`]).

use std::cell::Cell;

use crate::stage_set::StageSet;

/// A processor that was not idle for this long, in nanoseconds, has no time for the work of others.
const SATURATED: u64 = 20_000_000;
/// The time after giving partitions back in which a processor takes none over, in nanoseconds.
const PAUSE: u64 = 16 * SATURATED;
/// The pause before the first further attempt to move partitions that did not leave, and the longest, in nanoseconds.
/// Each attempt stops new operations on such a partition for a tenth of a second.
const RETRIES: (u64, u64) = (1_000_000_000, 64_000_000_000);

/// The record of one processor.
#[derive(Default)]
pub(crate) struct TakeOvers {
    /// The last time at which the processor was idle.
    idle: Cell<u64>,
    /// The time from which partitions may be taken over again.
    allowed: Cell<u64>,
    /// The stages of which this processor has partitions that it took over, or that should be elsewhere.
    stages: Cell<StageSet>,
    /// The time of the next attempt to move these, and the pause after that.
    retry: Cell<(u64, u64)>,
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
        now >= self.allowed.get() && !self.is_saturated(now) && self.target(here) == here
    }

    /// Records that the processor received another processor's partition.
    pub(crate) fn taken(&self, stage: u8) {
        self.retry.set((0, RETRIES.0));
        self.stays(stage);
    }

    /// Records that a partition did not move to its target.
    pub(crate) fn stays(&self, stage: u8) {
        let mut stages = self.stages.get();
        stages.insert(stage.into());
        self.stages.set(stages);
    }

    /// The processor that should own a partition whose first owner is `first`.
    pub(crate) fn target(&self, first: usize) -> usize {
        match self.active.get() {
            0 => first,
            active if first < active => first,
            active => first % active,
        }
    }

    /// Sets the number of active processors. The caller starts to move all partitions to their targets.
    pub(crate) fn set_active(&self, active: usize, now: u64) {
        self.active.set(active);
        self.stages.take();
        self.retry.set((now + RETRIES.0, RETRIES.0));
    }

    /// Whether processor number `here`, the one of this record, has partitions with another target, and is inactive or
    /// saturated.
    pub(crate) fn must_give_back(&self, now: u64, here: usize) -> bool {
        !self.stages.get().is_empty()
            && now >= self.retry.get().0
            && (self.is_saturated(now) || self.target(here) != here)
    }

    /// Returns the stages whose partitions the processor gives back. It takes none over for [`PAUSE`].
    pub(crate) fn give_back(&self, now: u64) -> StageSet {
        let (_, pause) = self.retry.get();
        self.retry.set((now + pause, (2 * pause).min(RETRIES.1)));
        self.allowed.set(now + PAUSE);
        self.stages.take()
    }

    fn is_saturated(&self, now: u64) -> bool {
        now.saturating_sub(self.idle.get()) > SATURATED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_leave_an_inactive_processor_is_tried_again_after_growing_pauses() {
        let second = RETRIES.0;
        let take_overs = TakeOvers::default();
        take_overs.was_idle(1000 * second);
        take_overs.set_active(1, 0);
        take_overs.stays(3);
        assert!(!take_overs.must_give_back(second - 1, 1));
        assert!(!take_overs.must_give_back(second, 0), "an active processor keeps it");
        for (at, next) in [(1, 2), (2, 4), (4, 8)] {
            assert!(take_overs.must_give_back(at * second, 1));
            assert!(take_overs.give_back(at * second).contains(3));
            take_overs.stays(3);
            assert!(!take_overs.must_give_back(next * second - 1, 1));
        }
        take_overs.taken(4);
        assert!(
            take_overs.must_give_back(4 * second, 1),
            "one that has just arrived leaves at once"
        );
    }
}
