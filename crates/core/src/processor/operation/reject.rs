//! Rejection of invocations that exceed the bound of the processor or of a stage, by the target or by the sending
//! processor. Futures that wait for a stage's capacity are woken at the end of its cohorts.

use crate::error::Rejection;
use crate::panic::drop_in_catch;
use crate::processor::processor::Processor;

impl Processor {
    /// Rejects an invocation of `stage` because there is no slot for it or no room in the queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn reject<F>(&self, stage: u8, invocation: F) -> Rejection {
        self.reject_for(self.why_rejected(stage), stage, invocation)
    }

    // This and `count_rejection` are not generic, so they are compiled once and not for every type of operation.
    fn why_rejected(&self, stage: u8) -> Rejection {
        let (local, sessions) = (&self.stages[usize::from(stage)], &self.waiting.sessions);
        match self.slab().bound() {
            bound if bound == 0 || sessions.has_ended(sessions.current()) => Rejection::CANCELLED,
            bound if local.queue.has_room() => Rejection::full(bound),
            _ => Rejection::stage_full(stage, local.cold.capacity.bound),
        }
    }

    /// Counts a rejection for this reason and drops the invocation. A panic in its destructor is caught, because the
    /// caller may be a turn of the processor.
    #[cold]
    pub(crate) fn reject_for<F>(&self, reason: Rejection, stage: u8, invocation: F) -> Rejection {
        self.count_rejection(reason, stage);
        drop_in_catch(invocation);
        reason
    }

    fn count_rejection(&self, reason: Rejection, stage: u8) {
        let (local, counters) = (&self.stages[usize::from(stage)], self.stage_counters(stage));
        counters.rejected.add(1);
        if reason.is_full() {
            counters.shed_full.add(1);
            local.cold.capacity.rejected(local.queue.has_room());
        }
    }
}
