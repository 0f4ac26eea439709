//! Rejection at full stages, and wake-up of the futures that wait for capacity.

use crate::error::Rejection;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::stage::key::Key;
use crate::stage::local::LocalStage;

impl Processor {
    pub(crate) fn has_capacity(&self, key: Key) -> bool {
        self.check(key);
        self.stage(usize::from(key.stage())).queue.has_room()
    }

    /// Wakes the futures that wait for a stage's capacity, after a cohort of it.
    #[cold]
    pub(crate) fn wake_capacity_waiters(&self, local: &LocalStage) {
        if local.has_recovered() {
            let waiting = local.runtime.capacity.waiting.take();
            waiting.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
        }
    }

    /// Counts a rejection by a full stage. The invocation is dropped, and its panic caught as in
    /// [`reject`](Self::reject).
    #[cold]
    #[inline(never)]
    pub(crate) fn reject_at_stage<F>(&self, stage: u8, invocation: F) -> Rejection {
        self.stage_counters(stage).rejected.add(1);
        let bound = self.stages[usize::from(stage)].runtime.capacity.bound;
        catch_panic(|| drop(invocation));
        Rejection::stage_full(stage, bound)
    }
}
