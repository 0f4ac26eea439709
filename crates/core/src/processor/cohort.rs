//! Running a cohort: the operations of one stage, one after the other.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::CallError;
use crate::metrics::counters::cohort_bucket;
use crate::operation::slot::{Slot, Step};
use crate::operation::state::{CANCELLED, FETCHING, HELD, NO_SESSION, QUEUED, SlotState, WOKEN};
use crate::panic::{catch_panic, discard_panic};
use crate::processor::cohort_stats::CohortStats;
use crate::processor::processor::Processor;
use crate::queue::local::{Aside, PopOrder};
use crate::stage::batching::bump;
use crate::stage::local::LocalStage;
use crate::state::exclusive::Gate;
use crate::world::World;

/// Operations after which a cohort first reads the clock. It then reads it at growing intervals: many
/// operations in a short time are short ones.
const FIRST_CLOCK_READ: usize = 8;

/// Leaves an exclusive stage at the end of the cohort, even if it unwinds.
struct GateGuard<'a>(&'a dyn Gate);

impl<'a> GateGuard<'a> {
    fn enter(gate: &'a dyn Gate) -> Option<Self> {
        gate.enter().then(|| Self(gate))
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl LocalStage {
    /// Remote operations with which a cohort begins if local ones are waiting as well. It alternates between
    /// none and their share of the queue, so that neither side starves, whether the count or the time ends
    /// cohorts.
    #[cold]
    fn remote_share(&self, remote: usize, waiting: usize) -> usize {
        let first = !self.runtime.remote_first.get();
        self.runtime.remote_first.set(first);
        let part = self.max_cohort.get().saturating_mul(remote) / waiting;
        if first { part.clamp(1, remote) } else { 0 }
    }
}

impl Processor {
    /// Runs one cohort of a stage, bounded by the stage's count and time. Returns the number of operations
    /// run; zero if another processor is in the exclusive stage.
    pub(crate) fn run_cohort(&self, stage: usize, world: &impl World) -> usize {
        let local = &self.stages[stage];
        if local.local.batch.as_ref().is_some_and(|batch| batch.is_busy()) {
            // The end of the running cohort makes the stage ready again.
            self.stages.clear_ready(stage);
            return 0;
        }
        let _inside = match &local.local.gate {
            None => None,
            Some(gate) => match GateGuard::enter(&**gate) {
                None => return 0,
                inside => inside,
            },
        };
        let start = self.now();
        let remote = self.link.mailbox().stages[stage].len();
        let waiting = local.queue.len() + remote;
        let oldest = local.queue.oldest();
        if let Some(slot) = oldest {
            local.runtime.class.set(local.runtime.class.get().max(slot.class.get()));
            if !std::ptr::eq(slot.vtable.get(), local.runtime.seen.get()) {
                self.note_type(slot, world);
            }
        }
        let oldest = oldest.map(|slot| slot.queued_at.get());
        local.runtime.waits.add(oldest.map_or(0, |oldest| start.saturating_sub(oldest)));
        let order = match local.lifo {
            true => local.starvation_guard.order(start, oldest),
            false => PopOrder::OldestFirst,
        };
        // Where a stage may preempt, thresholds are checked after every operation.
        let next_check =
            if self.stages.thresholds.stages.is_empty() { FIRST_CLOCK_READ } else { 1 };
        let stats = CohortStats {
            next_check: Cell::new(next_check),
            next_clock_read: Cell::new(FIRST_CLOCK_READ),
            ..CohortStats::default()
        };
        if remote > 0 && waiting > remote {
            stats.remote_left.set(local.remote_share(remote, waiting));
        }
        self.set_running_stage(stage);
        self.observe.counters.watch.turn_to(Some(stage));
        if let Some(batch) = &local.local.batch {
            self.run_batch(stage, local, &**batch, order, start, &stats);
        }
        // A panic ends the operation that was running; the cohort continues with the next.
        while local.local.batch.is_none()
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
                self.run_operations(stage, local, order, start, world, &stats);
            }))
        {
            self.operation_panicked(stage, panic, &stats);
        }
        self.current.set_running(None);
        if let Some((hook, site)) = &local.runtime.end_of_cohort
            && stats.size.get() > 0
            && let Err(panic) = catch_unwind(AssertUnwindSafe(&**hook))
        {
            self.record_panic(stage as u8, "end_of_cohort", site, &*panic);
            discard_panic(panic);
        }
        self.report_panics(world);
        self.set_running_stage(self.stages.len());
        self.observe.counters.watch.turn_to(None);
        let end = world.now();
        self.current.set_now(end);
        let time = end.saturating_sub(start).saturating_sub(stats.interrupted.get());
        self.cohort_ended(stage, local, waiting, time, &stats);
        catch_panic(|| world.cohort(self.stage_name(stage as u8), stats.size.get(), time));
        if self.observe.counters.recorder.is_on() {
            self.record_cohort(stage, start, stats.size.get() as u64, waiting);
        }
        stats.size.get()
    }

    /// Fails the operation whose poll panicked. It is dropped before its caller is woken: it is in no queue
    /// meanwhile, and the code of the world may panic too.
    #[cold]
    fn operation_panicked(&self, stage: usize, panic: Box<dyn Any + Send>, stats: &CohortStats) {
        self.waiting.sessions.enter(NO_SESSION);
        // The operation that was polled, and not a later one in its slot.
        let polled = |slot: &Slot| {
            slot.has(QUEUED) && matches!(slot.state.get(), SlotState::Started | SlotState::Empty)
        };
        if let Some(slot) = self.current.take_running().filter(polled) {
            bump(&stats.panicked);
            let error = self.record_panic(stage as u8, slot.operation(), slot.site.get(), &*panic);
            self.discard(slot, error);
        }
        discard_panic(panic);
    }

    fn run_operations(
        &self,
        stage: usize,
        local: &LocalStage,
        order: PopOrder,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) {
        loop {
            stats.limit.set(self.scratch.interleaved.limit(local.max_cohort.get()));
            if stats.remote_left.get() > 0
                && self.start_remote_share(stage, local, start, world, stats)
            {
                break;
            }
            self.start_operations(stage, local, order, start, world, stats);
            if self.scratch.interleaved.is_empty()
                || !self.resume_interleaved(local, start, world, stats)
            {
                break;
            }
        }
    }

    #[inline(always)]
    fn start_operations(
        &self,
        stage: usize,
        local: &LocalStage,
        order: PopOrder,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) {
        let beyond = self.exceeds_cache();
        while stats.size.get() < stats.limit.get() {
            // The local queue first, then remote operations (tr2001 §5.1.1), or the reverse.
            let slot = match local.queue.pop(order) {
                Some(slot) => slot,
                None => match self.next_remote(stage) {
                    Some(slot) => slot,
                    None => break,
                },
            };
            if beyond {
                self.load_next(local.queue.peek(order));
            }
            stats.size.set(stats.size.get() + 1);
            self.run_operation(slot, start, stats);
            if stats.size.get() == stats.next_check.get()
                && self.check_between_operations(stage, start, world, stats)
            {
                break;
            }
        }
    }

    /// Starts this cohort's share of remote operations. Returns whether the cohort's time is used up.
    #[cold]
    fn start_remote_share(
        &self,
        stage: usize,
        local: &LocalStage,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) -> bool {
        while stats.size.get() < stats.limit.get()
            && let Some(slot) = self.next_of_remote_share(stage, local, stats)
        {
            stats.size.set(stats.size.get() + 1);
            self.run_operation(slot, start, stats);
            if stats.size.get() == stats.next_check.get()
                && self.check_between_operations(stage, start, world, stats)
            {
                return true;
            }
        }
        false
    }

    /// The next operation of the remote share; none when the share is used up.
    #[cold]
    pub(crate) fn next_of_remote_share(
        &self,
        stage: usize,
        local: &LocalStage,
        stats: &CohortStats,
    ) -> Option<Slot> {
        let left = stats.remote_left.get().checked_sub(1)?;
        // Makes room in a full queue, since the operation is in it only for a moment.
        let aside = Aside::make_room(&local.queue);
        let next = self.next_remote(stage);
        drop(aside);
        stats.remote_left.set(if next.is_some() { left } else { 0 });
        next
    }

    /// Checks between two operations: runs overdue stages, and returns whether the cohort's time is used up.
    #[cold]
    fn check_between_operations(
        &self,
        stage: usize,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) -> bool {
        self.current.set_running(None);
        let mut over = false;
        if stats.size.get() == stats.next_clock_read.get() {
            over = self.has_used_time(&self.stages[stage], start, world, stats);
        }
        stats.next_check.set(stats.next_clock_read.get());
        if !self.stages.thresholds.stages.is_empty() {
            let interrupted = self.run_overdue(stage, world);
            stats.interrupted.set(stats.interrupted.get() + interrupted);
            stats.next_check.set(stats.size.get() + 1);
        }
        over
    }

    /// Reads the clock, and sets the next time to read it: soon, if much of the time is used.
    fn has_used_time(
        &self,
        local: &LocalStage,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) -> bool {
        let elapsed = world.now().saturating_sub(start).saturating_sub(stats.interrupted.get());
        let farther = if elapsed < local.cohort_time / 64 { 16 } else { 2 };
        stats.next_clock_read.set(stats.next_clock_read.get() * farther);
        elapsed > local.cohort_time
    }

    /// Accepts one operation that another processor sent.
    #[inline(never)]
    pub(crate) fn next_remote(&self, stage: usize) -> Option<Slot> {
        self.current.set_running(None);
        loop {
            let envelope = self.link.mailbox().stages[stage].pop()?;
            // A rejected envelope leaves the order of the queue unchanged.
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
            // Operations that its destructors wake are not the running one.
            self.current.set_running(None);
            bump(&stats.ended);
            return self.discard(slot, CallError::Cancelled);
        }
        let wait = start.saturating_sub(slot.queued_at.get());
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
            self.waiting.sessions.enter(slot.session.get());
        }
        self.poll_operation(slot, stats);
    }

    /// Polls an operation whose session has been entered, and handles the outcome.
    #[inline(always)]
    pub(crate) fn poll_operation(&self, slot: Slot, stats: &CohortStats) {
        self.current.set_running(Some(slot));
        self.stages.inline.begin();
        self.observe.counters.watch.operation(slot);
        let step = slot.poll(self.into());
        if slot.session.get() != NO_SESSION {
            self.waiting.sessions.enter(NO_SESSION);
        }
        let flags = slot.flags.get();
        match step {
            Step::DoneBare if flags & HELD == 0 && slot.session.get() == NO_SESSION => {
                self.slab().give(slot);
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
                    self.requeue(slot);
                } else {
                    slot.flags.set(flags & !QUEUED);
                }
            }
        }
    }

    /// Ends an operation that a call holds or that belongs to a session. Out of line, so that its code is
    /// not merged with that of the usual case above.
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

    /// Requeues an operation that woke itself (it is still marked as queued) behind all others of its stage.
    pub(crate) fn requeue(&self, slot: Slot) {
        let local = self.stage(usize::from(slot.stage.get()));
        slot.queued_at.set(self.now());
        match local.lifo {
            true => local.queue.push_behind(slot),
            false => local.queue.push(slot),
        }
    }

    fn cohort_ended(
        &self,
        stage: usize,
        local: &LocalStage,
        waiting: usize,
        time: u64,
        stats: &CohortStats,
    ) {
        let left = local.queue.len();
        local.starvation_guard.cohort_ended(left);
        local.runtime.remote_since.set(None);
        if local.runtime.capacity.is_some() {
            self.wake_capacity_waiters(local);
        }
        if left == 0 && self.link.mailbox().stages[stage].len() == 0 {
            self.stages.clear_ready(stage);
        }
        self.load.throttle.cohort_ended(stage, waiting > stats.size.get() && !self.holds(stage));
        let size = stats.size.get() as u64;
        let counters = &self.observe.counters.stages[stage];
        counters.queue_length.set(waiting as u64);
        counters.queue_length_max.raise_to(waiting as u64);
        counters.queue_length_sum.add(waiting as u64);
        let run = size - stats.ended.get();
        let resumed = stats.resumptions.get();
        counters.started.add(run - resumed);
        counters.started_wait.add(stats.started.total.get());
        counters.started_wait_max.raise_to(stats.started.longest.get());
        counters.resumed.add(resumed);
        counters.resumed_wait.add(stats.resumed.total.get());
        counters.resumed_wait_max.raise_to(stats.resumed.longest.get());
        counters.completed.add(run - stats.suspended.get() - stats.panicked.get());
        counters.suspended.add(stats.suspended.get());
        counters.run.add(time);
        let mean = time / size.max(1);
        counters.run_max.raise_to(mean);
        counters.cohorts.add(1);
        counters.cohort_max.raise_to(size);
        counters.cohort_sizes[cohort_bucket(size)].add(1);
        let wait = stats.started.total.get() + stats.resumed.total.get();
        counters.waits.add(run, wait / run.max(1));
        counters.runs.add(run, mean);
        self.observe.counters.busy.add(time);
    }
}
