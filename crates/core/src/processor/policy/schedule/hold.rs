//! Hold policy: waiting for a cohort to fill, for stages that declare it.
//!
//! The sweep skips a holding stage while it has fewer queued operations than its count and the oldest has waited for
//! less than its time, but only while the processor has other work. If nothing else ran in a turn, the turn ends by
//! running the held stages. So a processor with held work never parks or spins.

use crate::processor::processor::Processor;
use crate::stage::limits::HoldPolicy;

impl Processor {
    /// Whether a ready stage is skipped for now.
    #[inline]
    pub(crate) fn holds(&self, stage: usize) -> bool {
        self.stages.holding.contains(stage) && self.waits_to_fill(stage)
    }

    #[cold]
    fn waits_to_fill(&self, stage: usize) -> bool {
        let local = &self.stages[stage];
        let HoldPolicy { count, time } = local.cold.hold_policy;
        // A cohort is never larger than its maximum, so do not wait for more.
        let count = count.min(local.max_cohort.get());
        let waits = self.queued(stage) < count && self.oldest_wait(stage) < time;
        if waits {
            self.stage_counters(stage as u8).hold_skips.add(1);
        }
        waits
    }
}
