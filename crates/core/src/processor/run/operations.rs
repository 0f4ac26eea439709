//! Running the operations of a cohort, one after the other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::CallError;
use crate::operation::slot::{Slot, Step};
use crate::operation::state::{AWAITED, CANCELLED, FETCHING, NO_SESSION, QUEUED, SlotState, WOKEN};
use crate::panic::discard_panic;
use crate::processor::processor::Processor;
use crate::processor::run::cohort::RunningCohort;
use crate::processor::run::cohort_stats::{CohortStats, bump};
use crate::queue::local::Aside;
use crate::world::World;

impl Processor {
    /// Runs the operations of a cohort. A panic ends only the operation that panicked; the cohort continues with the
    /// next one.
    pub(crate) fn run_operations(&self, cohort: &RunningCohort<'_, impl World>) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_until_panic(cohort))) {
            self.operation_panicked(panic, &cohort.stats);
        }
    }

    fn run_until_panic(&self, cohort: &RunningCohort<'_, impl World>) {
        let stats = &cohort.stats;
        loop {
            stats.limit.set(self.scratch.interleaved.limit(cohort.local.max_cohort.get()));
            if stats.remote_left.get() > 0 && self.start_remote_share(cohort) {
                break;
            }
            self.start_operations(cohort);
            if self.scratch.interleaved.is_empty() || !self.resume_interleaved(cohort) {
                break;
            }
        }
    }

    #[inline(always)]
    fn start_operations(&self, cohort: &RunningCohort<'_, impl World>) {
        let (queue, order) = (&cohort.local.queue, cohort.order);
        let exceeds_cache = self.exceeds_cache();
        self.start_each(cohort, move || {
            // The local queue first, then remote operations (tr2001 §5.1.1), or the other way round.
            let slot = match queue.pop(order) {
                Some(slot) => slot,
                None => self.next_remote(cohort.stage)?,
            };
            if exceeds_cache {
                self.load_next(queue.peek(order));
            }
            Some(slot)
        });
    }

    /// Starts this cohort's share of remote operations. Returns whether the cohort's time is used up.
    #[cold]
    fn start_remote_share(&self, cohort: &RunningCohort<'_, impl World>) -> bool {
        self.start_each(cohort, || self.next_of_remote_share(cohort))
    }

    /// Starts or resumes operations while there is a `next` and the cohort's size permits. Returns whether the
    /// cohort's time is used up.
    #[inline(always)]
    fn start_each(
        &self,
        cohort: &RunningCohort<'_, impl World>,
        next: impl Fn() -> Option<Slot>,
    ) -> bool {
        let (start, stats) = (cohort.start, &cohort.stats);
        while stats.size.get() < stats.limit.get()
            && let Some(slot) = next()
        {
            stats.size.set(stats.size.get() + 1);
            self.run_operation(slot, start, stats);
            if stats.size.get() == stats.next_check.get() && self.check_between_operations(cohort) {
                return true;
            }
        }
        false
    }

    /// The next operation of the remote share; none when the share is used up.
    #[cold]
    pub(crate) fn next_of_remote_share<W>(&self, cohort: &RunningCohort<'_, W>) -> Option<Slot> {
        let stats = &cohort.stats;
        let remaining = stats.remote_left.get().checked_sub(1)?;
        // Makes room even in a full queue, because the operation is popped again immediately.
        let aside = Aside::make_room(&cohort.local.queue);
        let next = self.next_remote(cohort.stage);
        drop(aside);
        stats.remote_left.set(if next.is_some() { remaining } else { 0 });
        next
    }

    /// Checks between two operations: runs overdue stages, and returns whether the cohort's time is used up.
    #[cold]
    fn check_between_operations(&self, cohort: &RunningCohort<'_, impl World>) -> bool {
        let stats = &cohort.stats;
        self.current.set_running(None);
        let mut is_over = false;
        if stats.size.get() == stats.next_clock_read.get() {
            is_over = self.has_used_time(cohort);
        }
        stats.next_check.set(stats.next_clock_read.get());
        if !self.stages.thresholds.stages.is_empty() {
            let interrupted = self.run_overdue(cohort.stage, cohort.world);
            stats.interrupted.set(stats.interrupted.get() + interrupted);
            stats.next_check.set(stats.size.get() + 1);
        }
        is_over
    }

    /// Reads the clock, and decides when to read it next: soon, if much of the cohort's time has been used.
    fn has_used_time(&self, cohort: &RunningCohort<'_, impl World>) -> bool {
        let RunningCohort { local, start, world, stats, .. } = cohort;
        let elapsed = world.now().saturating_sub(*start).saturating_sub(stats.interrupted.get());
        let growth = if elapsed < local.cohort_time / 64 { 16 } else { 2 };
        stats.next_clock_read.set(stats.next_clock_read.get() * growth);
        elapsed > local.cohort_time
    }

    /// Accepts one operation that another processor sent.
    #[inline(never)]
    pub(crate) fn next_remote(&self, stage: usize) -> Option<Slot> {
        self.current.set_running(None);
        loop {
            let envelope = self.link.mailbox().stages[stage].pop()?;
            // If the envelope was rejected, the newest operation is another one and stays in the queue.
            if let Some(slot) = self.accept_remote(envelope)
                && self.stages[stage].queue.pop_newest(slot)
            {
                return Some(slot);
            }
        }
    }

    #[inline(always)]
    fn run_operation(&self, slot: Slot, start: u64, stats: &CohortStats) {
        if slot.has(CANCELLED) {
            // The destructors may wake operations, which must not be mistaken for the running one.
            self.current.set_running(None);
            bump(&stats.ended);
            return self.discard(slot, CallError::Cancelled);
        }
        let wait = start.saturating_sub(slot.queued_since());
        match slot.state.get() {
            SlotState::Unstarted => stats.started.add(wait),
            _ => {
                bump(&stats.resumptions);
                stats.resumed.add(wait);
            }
        }
        if slot.session.get() != NO_SESSION {
            if self.is_expired(slot, start) {
                return self.shed_expired(slot, stats);
            }
            self.waiting.sessions.set_current(slot.session.get());
        }
        self.poll_operation(slot, stats);
    }

    /// Polls an operation in whose session the processor already is, and handles the outcome.
    #[inline(always)]
    pub(crate) fn poll_operation(&self, slot: Slot, stats: &CohortStats) {
        self.current.set_running(Some(slot));
        self.stages.inline.begin();
        self.observe.counters.watch.operation(slot);
        let step = slot.poll(self.into());
        if slot.session.get() != NO_SESSION {
            self.waiting.sessions.set_current(NO_SESSION);
        }
        let flags = slot.flags.get();
        match step {
            Step::DoneBare if flags & AWAITED == 0 && slot.session.get() == NO_SESSION => {
                self.slab().release(slot);
            }
            Step::DoneBare | Step::Done => {
                slot.flags.set(flags & !(QUEUED | WOKEN));
                self.finish_awaited(slot);
            }
            Step::Suspended => {
                if flags & (CANCELLED | FETCHING) == FETCHING {
                    return self.interleave(slot, stats);
                }
                bump(&stats.suspended);
                if flags & CANCELLED != 0 {
                    self.discard(slot, CallError::Cancelled);
                } else if flags & WOKEN != 0 {
                    slot.flags.set(flags & !WOKEN);
                    self.requeue_behind(slot);
                } else {
                    slot.flags.set(flags & !QUEUED);
                }
            }
        }
    }

    /// Fails the operation whose poll panicked. The operation is dropped before its caller is woken, because it is in
    /// no queue until then and the world's code may panic too.
    #[cold]
    fn operation_panicked(&self, panic: Box<dyn Any + Send>, stats: &CohortStats) {
        self.waiting.sessions.set_current(NO_SESSION);
        // Matches only the operation that was polled, not a later one in its slot.
        let polled = |slot: &Slot| {
            slot.has(QUEUED) && matches!(slot.state.get(), SlotState::Started | SlotState::Empty)
        };
        match self.current.take_running().filter(polled) {
            Some(slot) => {
                bump(&stats.panicked);
                self.fail_panicked(slot, panic);
            }
            None => discard_panic(panic),
        }
    }

    /// Ends an operation that a call awaits or that belongs to a session. It is out of line, so that its code is not
    /// merged with the common case above.
    #[inline(never)]
    fn finish_awaited(&self, slot: Slot) {
        self.finish(slot);
    }

    /// Whether an operation has not started and its session's deadline has passed.
    #[inline(never)]
    pub(crate) fn is_expired(&self, slot: Slot, start: u64) -> bool {
        slot.state.get() == SlotState::Unstarted
            && self.waiting.sessions.is_expired(slot.session.get(), start)
    }

    #[cold]
    pub(crate) fn shed_expired(&self, slot: Slot, stats: &CohortStats) {
        self.current.set_running(None);
        bump(&stats.ended);
        self.discard(slot, CallError::DeadlinePassed);
    }
}
