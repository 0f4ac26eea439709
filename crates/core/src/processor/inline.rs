//! Direct execution: a call that is awaited at once is run at once, like a procedure call.
//!
//! Where a stage's code is small, so that a cohort of it has nothing to gain, its calls need not
//! wait in a queue for one. When the caller awaits such a call for the first time (never before:
//! the order that a program sees is that of suspending callers) the child is taken from its queue
//! and polled inside of the caller's own poll. If it completes, its result is there without a
//! wake-up; if it suspends it has become an operation like any other, and the caller suspends too.
//! Operations that were queued at the stage before the child run first, in the same place. So the
//! stage keeps its order.
//!
//! How deep children run inside of one another is bounded, for the stack's sake, and how many run
//! while one operation is polled, for the other operations' sake; beyond that a call waits in its
//! queue, as all do elsewhere. [`crate::handle::run_inline`] has what is cheaper still.
//!
//! # Safety
//! The counters that [`InlineState`](crate::stage::inline_state::InlineState) points to are the processor's, which keeps them as long as it lives;
//! there are some for each stage of its graph, and only such are asked for (keys are checked). A row
//! of arcs is followed, [`InlineState::beyond`](crate::stage::inline_state::InlineState::beyond) further on, by one of as many counters
//! ([`ProcessorCounters::arcs`](crate::metrics::counters::ProcessorCounters::arcs)).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::CallError;
use crate::metrics::counter::Counter;
use crate::operation::slot::{Header, Slot, Step};
use crate::operation::state::{ENDED, HELD, NO_SESSION, OUTER, QUEUED, SlotState, WOKEN};
use crate::panic::discard_panic;
use crate::processor::processor::Processor;
use crate::queue::local::PopOrder;
use crate::stage::local::LocalStage;

/// Children inside of one another.
const MAX_INLINE_DEPTH: u32 = 16;

/// What a processor goes back to after a child inside of its caller.
pub(crate) struct CallerContext {
    row: *const Counter,
    watched: (u64, *mut Header),
}

impl Processor {
    /// Counts an operation of `stage` that was a part of its caller, and has completed.
    #[inline(always)]
    pub(crate) fn count_inline(&self, stage: u8) {
        let row = self.current.arc_row();
        // SAFETY: of a stage that there is (top of the file).
        unsafe { (*row.add(self.stages.inline.beyond + usize::from(stage))).add(1) };
    }

    /// Whether an awaited call's operation might be run here and now.
    #[inline(always)]
    pub(crate) fn is_direct(&self, slot: Slot) -> bool {
        slot.state.get() == SlotState::Unstarted && self.stages.inline.has(slot.stage.get())
    }

    /// The operation that is being polled: not where none is, nor from destructors.
    #[inline(always)]
    pub(crate) fn pollable(&self) -> Option<Slot> {
        let caller = self.current.running()?;
        (caller.state.get() == SlotState::Started && caller.has(QUEUED)).then_some(caller)
    }

    /// Goes on with `slot`, inside of the operation that runs.
    #[inline(always)]
    fn enter_inline(&self, slot: Slot) -> CallerContext {
        let stage = slot.stage.get();
        self.stages.inline.depth.set(self.stages.inline.depth.get() + 1);
        let row = self.current.set_arc_row(self.stages.inline.row(stage));
        CallerContext { row, watched: self.observe.counters.watch.enter(usize::from(stage), slot) }
    }

    #[inline(always)]
    pub(crate) fn leave_inline(&self, CallerContext { row, watched }: CallerContext) {
        self.observe.counters.watch.leave(watched);
        self.current.set_arc_row(row);
        self.stages.inline.depth.set(self.stages.inline.depth.get() - 1);
    }

    /// Runs an operation of a direct stage, which has not started, if that may be. Operations that were
    /// queued before it run first, unless the stage is last in, first out.
    pub(crate) fn try_run_inline(&self, slot: Slot) {
        let Some(caller) = self.pollable() else { return };
        let local = self.stage(usize::from(slot.stage.get()));
        if slot.flags.get() == HELD | QUEUED
            && self.may_run_inline()
            && (local.queue.pop_alone(slot) || self.run_older_and_pop(caller, slot, local))
        {
            self.run_in_caller(caller, slot, local);
        }
    }

    /// Whether the operation has been taken from its queue.
    #[cold]
    #[inline(never)]
    fn run_older_and_pop(&self, caller: Slot, slot: Slot, local: &LocalStage) -> bool {
        if local.lifo {
            return local.queue.pop_newest(slot);
        }
        while let Some(next) = local.queue.oldest()
            && next.state.get() == SlotState::Unstarted
            && next.flags.get() & !HELD == QUEUED
            // One of those before may have run it inside of itself.
            && slot.state.get() == SlotState::Unstarted
        {
            if next != slot && !self.may_run_inline() {
                break;
            }
            local.queue.pop(PopOrder::OldestFirst);
            if next == slot {
                return true;
            }
            self.run_in_caller(caller, next, local);
        }
        false
    }

    #[inline(always)]
    fn may_run_inline(&self) -> bool {
        self.stages.inline.depth.get() < MAX_INLINE_DEPTH && self.stages.inline.allows()
    }

    /// Runs an operation that has been taken from its queue and has not started.
    #[inline(always)]
    fn run_in_caller(&self, caller: Slot, slot: Slot, local: &LocalStage) {
        let stage = usize::from(slot.stage.get());
        let session = self.waiting.sessions.current();
        let caller_context = self.enter_inline(slot);
        caller.set(OUTER);
        self.current.set_running(Some(slot));
        if slot.session.get() != NO_SESSION
            && self.waiting.sessions.is_expired(slot.session.get(), self.now())
        {
            self.current.set_running(None);
            self.discard(slot, CallError::DeadlinePassed);
        } else {
            self.waiting.sessions.enter(slot.session.get());
            match catch_unwind(AssertUnwindSafe(|| slot.poll(self.into()))) {
                Ok(Step::Done | Step::DoneBare) => {
                    self.observe.counters.stages[stage].direct.add(1);
                    slot.clear(QUEUED | WOKEN);
                    self.finish(slot);
                }
                Ok(Step::Suspended) => self.suspended_inline(slot, stage),
                Err(panic) => {
                    self.current.set_running(None);
                    self.observe.counters.stages[stage].started.add(1);
                    let (operation, site) = (slot.operation(), slot.site.get());
                    let error = self.record_panic(stage as u8, operation, site, &*panic);
                    self.discard(slot, error);
                    discard_panic(panic);
                }
            }
        }
        self.current.set_running(Some(caller));
        caller.clear(OUTER);
        self.leave_inline(caller_context);
        self.waiting.sessions.enter(session);
        if local.runtime.capacity.is_some() {
            self.wake_capacity_waiters(local);
        }
    }

    /// From here on it is like any other operation.
    #[cold]
    #[inline(never)]
    fn suspended_inline(&self, slot: Slot, stage: usize) {
        let counters = &self.observe.counters.stages[stage];
        counters.started.add(1);
        counters.suspended.add(1);
        if slot.has(ENDED) {
            self.discard(slot, CallError::Cancelled);
        } else if slot.has(WOKEN) {
            slot.clear(WOKEN);
            self.requeue(slot);
            self.stages.set_ready(stage);
        } else {
            slot.clear(QUEUED);
        }
    }
}
