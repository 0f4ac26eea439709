//! SessionGuard: waiting for a cohort to fill, where a stage asks for it.
//!
//! A stage that holds is passed over by the sweep while fewer than its count are queued and the
//! oldest is younger than its time, and only as long as the processor has something else to run: a
//! turn in which nothing else ran ends by running what was held. So a processor is never idle with
//! held work, never sleeps on it and never spins on it.

use crate::processor::processor::Processor;
use crate::stage::limits::HoldPolicy;

impl Processor {
    /// Whether a ready stage is to be passed over for now.
    #[inline]
    pub(crate) fn holds(&self, stage: usize) -> bool {
        self.stages.holding.contains(stage) && self.waits_to_fill(stage)
    }

    #[cold]
    fn waits_to_fill(&self, stage: usize) -> bool {
        let HoldPolicy { count, time } = self.stages[stage].runtime.hold_policy;
        let waits = self.queued(stage) < count && self.oldest_wait(stage) < time;
        if waits {
            self.stage_counters(stage as u8).hold_skips.add(1);
        }
        waits
    }
}
