//! Giving back partitions that were taken over from sleeping processors, and gathering them on active ones.

use crate::processor::processor::Processor;
use crate::program::program::Phase;
use crate::stage_set::StageSet;

impl Processor {
    /// Gives all partitions back that were taken over, if this processor is saturated.
    pub(crate) fn give_back(&self) {
        let (take_overs, now) = (&self.load.take_overs, self.now());
        if take_overs.must_give_back(now) && self.may_move() {
            self.gather_stages(take_overs.give_back(now));
        }
    }

    /// Sets the number of active processors, and moves the partitions that should be on another one.
    pub(crate) fn gather(&self, active: usize) {
        self.load.take_overs.set_active(active);
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
