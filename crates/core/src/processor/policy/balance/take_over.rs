//! When a processor takes partitions over from sleeping ones, and when it gives them back
//! ([`crate::handle::policy::take_over`]).

use std::cell::Cell;

use crate::processor::processor::Processor;
use crate::program::program::Phase;
use crate::stage_set::StageSet;

/// A processor that was not idle for this long, in nanoseconds, has no time for the work of others.
const SATURATED: u64 = 20_000_000;
/// The time after giving partitions back in which a processor takes none over, in nanoseconds.
const PAUSE: u64 = 16 * SATURATED;

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

    fn is_saturated(&self, now: u64) -> bool {
        now.saturating_sub(self.idle.get()) > SATURATED
    }
}

impl Processor {
    /// Gives all partitions back that were taken over, if this processor is saturated.
    pub(crate) fn give_back(&self) {
        let (take_overs, now) = (&self.load.take_overs, self.now());
        if take_overs.stages.get().is_empty() || !take_overs.is_saturated(now) || !self.may_move() {
            return;
        }
        take_overs.allowed.set(now + PAUSE);
        self.gather_stages(take_overs.stages.take());
    }

    /// Sets the number of active processors, and moves the partitions that should be on another one.
    pub(crate) fn gather(&self, active: usize) {
        self.load.take_overs.active.set(active);
        if self.may_move() {
            self.gather_stages(StageSet::select(0..self.stages.len(), |_| true));
        }
    }

    /// Whether partitions may leave. The others may have ended already, unless the program runs and this processor
    /// counts as busy.
    fn may_move(&self) -> bool {
        self.link.busy.is_busy() && self.program().phase() == Phase::Running
    }

    fn gather_stages(&self, stages: StageSet) {
        for stage in stages {
            if let Some(gather) = self.program().stages[stage].gather {
                gather(self.into(), stage as u8);
            }
        }
    }
}
