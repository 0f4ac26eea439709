//! Giving back partitions that were taken over from sleeping processors, and gathering partitions on active processors.

use crate::processor::processor::Processor;
use crate::program::program::Phase;
use crate::stage_set::StageSet;

impl Processor {
    /// Gives back all partitions that were taken over, if this processor is saturated or inactive.
    pub(crate) fn give_back(&self) {
        let (take_overs, now) = (&self.load.take_overs, self.now());
        if take_overs.must_give_back(now, self.index()) && self.may_move() {
            self.gather_stages(take_overs.give_back(now));
        }
    }

    /// Sets the number of active processors, and moves the partitions that should be on another one.
    pub(crate) fn gather(&self, active: usize) {
        let take_overs = &self.load.take_overs;
        take_overs.set_active(active, self.now());
        let stages = &self.program().stages;
        let migrating = StageSet::select(stages.iter(), |stage| stage.gather.is_some());
        if self.may_move() {
            self.gather_stages(migrating)
        } else {
            // The partitions leave when this processor is busy.
            migrating.for_each(|stage| take_overs.record_take_over(stage as u8))
        }
    }

    /// Records that a partition of `stage` has moved here from another processor. If it should be on another processor,
    /// it is given away later like a partition that was taken over.
    pub(crate) fn has_received(&self, stage: u8, first_owner: usize) {
        let take_overs = &self.load.take_overs;
        let migrates = self.program().stages[usize::from(stage)].gather.is_some();
        if migrates && take_overs.target(first_owner) != self.index() {
            take_overs.record_take_over(stage);
        }
    }

    /// Whether partitions may leave. Their targets may have ended unless the program is running and this processor
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
