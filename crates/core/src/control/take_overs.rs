//! Take-overs: deciding when a processor takes partitions over from sleeping processors, and when it gives them back
//! ([`crate::handle::policy::moving::take_over`]).

use std::cell::Cell;

use crate::stage_set::StageSet;

/// A processor that has not been idle for this time, in nanoseconds, counts as saturated and takes no work of others.
const SATURATED: u64 = 20_000_000;
/// The time for which a processor takes no partitions over after it has given some back, in nanoseconds.
const PAUSE: u64 = 16 * SATURATED;
/// The initial and the maximum pause before another attempt to move partitions that did not leave, in nanoseconds. Each
/// attempt stops new operations on such a partition for up to 100 ms.
const RETRIES: (u64, u64) = (1_000_000_000, 64_000_000_000);

/// The take-over state of one processor.
#[derive(Default)]
pub(crate) struct TakeOvers {
    /// The last time at which the processor was idle.
    idle: Cell<u64>,
    /// The time from which partitions may be taken over again.
    allowed: Cell<u64>,
    /// The stages of which this processor owns partitions that it took over or that should be on another processor.
    stages: Cell<StageSet>,
    /// The time of the next attempt to move these partitions, and the pause after that.
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

    /// Whether this processor, whose number is `here`, may take partitions over.
    pub(crate) fn are_allowed(&self, now: u64, here: usize) -> bool {
        now >= self.allowed.get() && !self.is_saturated(now) && self.target(here) == here
    }

    /// Records that this processor has received a partition from another one.
    pub(crate) fn record_take_over(&self, stage: u8) {
        self.retry.set((0, RETRIES.0));
        self.record_failed_move(stage);
    }

    /// Records that a partition did not move to its target.
    pub(crate) fn record_failed_move(&self, stage: u8) {
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

    /// Whether this processor, whose number is `here`, owns partitions that should be elsewhere, and is inactive or
    /// saturated.
    pub(crate) fn must_give_back(&self, now: u64, here: usize) -> bool {
        !self.stages.get().is_empty()
            && now >= self.retry.get().0
            && (self.is_saturated(now) || self.target(here) != here)
    }

    /// Returns the stages whose partitions this processor must give back. It then takes none over for [`PAUSE`].
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
    fn moves_from_an_inactive_processor_are_retried_with_backoff() {
        let second = RETRIES.0;
        let take_overs = TakeOvers::default();
        take_overs.was_idle(1000 * second);
        take_overs.set_active(1, 0);
        take_overs.record_failed_move(3);
        assert!(!take_overs.must_give_back(second - 1, 1));
        assert!(!take_overs.must_give_back(second, 0), "an active processor keeps it");
        for (at, next) in [(1, 2), (2, 4), (4, 8)] {
            assert!(take_overs.must_give_back(at * second, 1));
            assert!(take_overs.give_back(at * second).contains(3));
            take_overs.record_failed_move(3);
            assert!(!take_overs.must_give_back(next * second - 1, 1));
        }
        take_overs.record_take_over(4);
        assert!(
            take_overs.must_give_back(4 * second, 1),
            "one that has just arrived leaves immediately"
        );
    }
}
