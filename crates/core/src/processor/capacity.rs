//! Refusing what a stage has no room for, and waking what waits for room.

use crate::error::Refused;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::stage::key::Key;
use crate::stage::local::LocalStage;

impl Processor {
    pub(crate) fn has_capacity(&self, key: Key) -> bool {
        self.check(key);
        self.stage(usize::from(key.stage())).queue.has_room()
    }

    /// The cohort of a stage with a bound is over: tells those who wait for room.
    #[cold]
    pub(crate) fn wake_capacity_waiters(&self, local: &LocalStage) {
        if local.has_recovered() {
            let waiting = local.runtime.capacity.waiting.take();
            waiting.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
        }
    }

    /// Counts a refusal at a stage that is full. What was to be invoked is dropped, contained as in
    /// [`refuse`](Self::refuse).
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_at_stage<F>(&self, stage: u8, invocation: F) -> Refused {
        self.stage_counters(stage).rejected.add(1);
        let bound = self.stages[usize::from(stage)].runtime.capacity.bound;
        catch_panic(|| drop(invocation));
        Refused::stage_full(stage, bound)
    }
}
