//! Rejection of invocations that exceed the bound of the processor or of a stage, by the target or by the sending
//! processor. Futures that wait for a stage's capacity are woken at the end of its cohorts.

use crate::error::Rejection;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;

impl Processor {
    /// Rejects an invocation of `stage` because there is no slot for it or no room in the queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn reject<F>(&self, stage: u8, invocation: F) -> Rejection {
        let local = &self.stages[usize::from(stage)];
        let ended = self.waiting.sessions.has_ended(self.waiting.sessions.current());
        let reason = match self.slab().bound() {
            0 => Rejection::CANCELLED,
            _ if ended => Rejection::CANCELLED,
            bound if local.queue.has_room() => Rejection::full(bound),
            _ => Rejection::stage_full(stage, local.cold.capacity.bound),
        };
        self.reject_for(reason, stage, invocation)
    }

    /// Counts a rejection for this reason and drops the invocation. A panic in its destructor is caught, because the
    /// caller may be a turn of the processor.
    #[cold]
    #[inline(never)]
    pub(crate) fn reject_for<F>(&self, reason: Rejection, stage: u8, invocation: F) -> Rejection {
        let counters = self.stage_counters(stage);
        counters.rejected.add(1);
        if reason.is_full() {
            counters.shed_full.add(1);
            let local = &self.stages[usize::from(stage)];
            local.cold.capacity.rejected(local.queue.has_room());
        }
        catch_panic(|| drop(invocation));
        reason
    }
}
