//! Inline execution: a call that is awaited immediately runs inside its caller, like a function call.
//!
//! If a stage's code is small, a cohort of it gains nothing, so its calls need not wait in a queue. When the caller
//! first awaits such a call, the child is taken from its queue and polled within the caller's own poll. It never runs
//! before that, so programs observe the same order as if the caller suspended. If the child completes, its result is
//! available without a wake-up. If it suspends, it becomes an ordinary operation, and the caller suspends too.
//! Operations that were queued at the stage before the child run first, in the same way, so the stage keeps its order.
//!
//! The nesting depth is bounded to protect the stack, and the number of inline runs per poll is bounded so that other
//! operations get their turn. Beyond these bounds a call waits in its queue. [`crate::handle::policy::run_fused`]
//! contains the cheaper special cases.
//!
//! # Safety
//! [`InlineState`](crate::stage::inline_state::InlineState) points to the processor's counters, which live as long as
//! the processor and have a row for each stage of its graph. Stages come from checked keys, so their rows exist.
//! [`InlineState::arcs_per_part`](crate::stage::inline_state::InlineState::arcs_per_part) counters after each row of
//! arcs, there is a second row of the same length
//! ([`ProcessorCounters::arcs`](crate::metrics::counters::ProcessorCounters::arcs)).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::CallError;
use crate::metrics::counter::Counter;
use crate::open_scopes::OpenScope;
use crate::operation::slot::{Header, Slot, Step};
use crate::operation::state::{AWAITED, CANCELLED, NO_SESSION, OUTER, QUEUED, SlotState, WOKEN};
use crate::processor::processor::Processor;
use crate::queue::local::PopOrder;
use crate::stage::local::LocalStage;

/// Maximum nesting depth of inline operations.
const MAX_INLINE_DEPTH: u32 = 16;

/// The context to restore when an inline operation returns to its caller.
pub(crate) struct CallerContext {
    row: *const Counter,
    outer: (u64, *mut Header),
}

impl Processor {
    /// Counts an operation of `stage` that ran as part of its caller and completed.
    #[inline(always)]
    pub(crate) fn count_inline(&self, stage: u8) {
        let row = self.current.arc_row();
        // SAFETY: the stage exists, so its counter exists too (top of the file).
        unsafe { (*row.add(self.stages.inline.arcs_per_part + usize::from(stage))).add(1) };
    }

    /// Whether an awaited call's operation may run inline.
    #[inline(always)]
    pub(crate) fn is_direct(&self, slot: Slot) -> bool {
        slot.state.get() == SlotState::Unstarted && self.stages.inline.is_inline(slot.stage.get())
    }

    /// The operation that is being polled. None between polls and in destructors.
    #[inline(always)]
    pub(crate) fn pollable(&self) -> Option<Slot> {
        let caller = self.current.running()?;
        (caller.state.get() == SlotState::Started && caller.has(QUEUED)).then_some(caller)
    }

    /// Makes `slot` the running operation, nested in the current one.
    #[inline(always)]
    fn enter_inline(&self, slot: Slot) -> CallerContext {
        let stage = slot.stage.get();
        self.stages.inline.depth.set(self.stages.inline.depth.get() + 1);
        let row = self.current.set_arc_row(self.stages.inline.row(stage));
        CallerContext {
            row,
            outer: self.observe.counters.watch.begin_inline(usize::from(stage), slot),
        }
    }

    #[inline(always)]
    pub(crate) fn leave_inline(&self, CallerContext { row, outer }: CallerContext) {
        self.observe.counters.watch.end_inline(outer);
        self.current.set_arc_row(row);
        self.stages.inline.depth.set(self.stages.inline.depth.get() - 1);
    }

    /// Runs an unstarted operation of a direct stage inline, if the bounds allow it. Operations that were queued
    /// earlier run first, unless the stage is last-in, first-out.
    pub(crate) fn try_run_inline(&self, slot: Slot) {
        let Some(caller) = self.pollable() else { return };
        let local = self.stage(usize::from(slot.stage.get()));
        if slot.flags.get() == AWAITED | QUEUED
            && self.may_run_inline()
            && (local.queue.pop_alone(slot) || self.run_older_and_pop(caller, slot, local))
        {
            self.run_in_caller(caller, slot, local);
        }
    }

    /// Runs the operations queued before `slot`. Returns whether `slot` has been taken from its queue.
    #[cold]
    #[inline(never)]
    fn run_older_and_pop(&self, caller: Slot, slot: Slot, local: &LocalStage) -> bool {
        if local.lifo {
            return local.queue.pop_newest(slot);
        }
        while let Some(next) = local.queue.oldest()
            && next.state.get() == SlotState::Unstarted
            && next.flags.get() & !AWAITED == QUEUED
            // An earlier operation may have run it inline.
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
        self.stages.inline.depth.get() < MAX_INLINE_DEPTH && self.stages.inline.take_budget()
    }

    /// Runs an unstarted operation that has been removed from its queue.
    #[inline(always)]
    fn run_in_caller(&self, caller: Slot, slot: Slot, local: &LocalStage) {
        let stage = usize::from(slot.stage.get());
        let session = self.waiting.sessions.current();
        let caller_context = self.enter_inline(slot);
        let _scope = OpenScope::no_suspend();
        caller.set(OUTER);
        self.current.set_running(Some(slot));
        if slot.session.get() != NO_SESSION && self.is_expired(slot, self.now()) {
            self.current.set_running(None);
            self.discard(slot, CallError::DeadlinePassed);
        } else {
            self.waiting.sessions.set_current(slot.session.get());
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
                    self.fail_panicked(slot, panic);
                }
            }
        }
        self.current.set_running(Some(caller));
        caller.clear(OUTER);
        self.leave_inline(caller_context);
        self.waiting.sessions.set_current(session);
        if local.cold.capacity.is_some() {
            local.wake_capacity_waiters();
        }
    }

    /// Turns an inline operation that has suspended into an ordinary operation.
    #[cold]
    #[inline(never)]
    fn suspended_inline(&self, slot: Slot, stage: usize) {
        let counters = &self.observe.counters.stages[stage];
        counters.started.add(1);
        counters.suspended.add(1);
        if slot.has(CANCELLED) {
            self.discard(slot, CallError::Cancelled);
        } else if slot.has(WOKEN) {
            slot.clear(WOKEN);
            self.requeue_behind(slot);
            self.stages.set_ready(stage);
        } else {
            slot.clear(QUEUED);
        }
    }
}
