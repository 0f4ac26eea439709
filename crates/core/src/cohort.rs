//! Running a cohort: the operations of one stage, one after the other.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context;

use crate::error::CallError;
use crate::operation::{ENDED, Life, NO_SESSION, QUEUED, RUNNING, Slot, WOKEN};
use crate::processor::{LocalStage, Processor};
use crate::profile::cohort_bucket;
use crate::queue::Order;
use crate::remote::panicked;
use crate::waker::waker;
use crate::wavefront::World;

/// A cohort's time is looked at after this many operations, and then at growing distances: many
/// operations in a short time are short ones.
const FIRST_LOOK: usize = 8;

/// What one cohort adds to its stage's counters.
#[derive(Default)]
struct Tally {
    started: u64,
    started_wait: u64,
    started_wait_max: u64,
    resumed: u64,
    resumed_wait: u64,
    resumed_wait_max: u64,
    completed: u64,
    suspended: u64,
    size: usize,
}

impl Processor {
    /// Runs one cohort of a stage: what is there, bounded by the stage's count and time. Returns
    /// how many operations ran; none when another processor is in an exclusive stage.
    pub(crate) fn run_cohort(&self, stage: usize, world: &impl World) -> usize {
        let local = &self.stages[stage];
        if let Some(gate) = &local.local.gate
            && !gate.enter()
        {
            return 0;
        }
        let start = self.now.get();
        let waiting = local.queue.len() + self.post.stages[stage].len();
        let order = match local.in_order {
            true => Order::OldestFirst,
            false => local.cap.order(start, local.queue.oldest().map(|slot| slot.queued_at.get())),
        };
        let mut tally = Tally::default();
        self.set_running_stage(stage);
        let deadline = start.saturating_add(local.cohort_time);
        // A panic ends the operation that was running, and the cohort goes on after it.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
            self.run_operations(stage, order, start, deadline, world, &mut tally);
        })) {
            self.sessions.enter(NO_SESSION);
            if let Some(slot) = self.running.take() {
                slot.clear(RUNNING);
                self.discard(slot, panicked(self, stage as u8, &*panic));
            }
        }
        self.set_running_stage(self.stages.len());
        if let Some(gate) = &local.local.gate {
            gate.leave();
        }
        let end = world.now();
        self.now.set(end);
        self.cohort_ended(stage, local, waiting, end.saturating_sub(start), &tally);
        tally.size
    }

    fn run_operations(
        &self,
        stage: usize,
        order: Order,
        start: u64,
        deadline: u64,
        world: &impl World,
        tally: &mut Tally,
    ) {
        let local = &self.stages[stage];
        let mut look = FIRST_LOOK.max(tally.size + 1);
        while tally.size < local.max_cohort {
            // The local stack first, then what other processors sent (tr2001 §5.1.1).
            let Some(slot) = local.queue.pop(order).or_else(|| self.next_parcel(stage)) else {
                break;
            };
            tally.size += 1;
            self.run_operation(slot, start, tally);
            if tally.size == look {
                look += 2 * look;
                if world.now() > deadline {
                    break;
                }
            }
        }
    }

    /// Takes up one operation that another processor sent.
    fn next_parcel(&self, stage: usize) -> Option<Slot> {
        loop {
            // SAFETY: the post is this processor's own.
            let parcel = unsafe { self.post.stages[stage].pop() }?;
            self.take_up(parcel);
            if let Some(slot) = self.stages[stage].queue.pop(Order::NewestFirst) {
                return Some(slot);
            }
        }
    }

    #[inline]
    fn run_operation(&self, slot: Slot, start: u64, tally: &mut Tally) {
        let flags = slot.flags.get() & !QUEUED;
        if flags & ENDED != 0 {
            slot.flags.set(flags);
            return self.discard(slot, CallError::Ended);
        }
        slot.flags.set(flags | RUNNING);
        let wait = start.saturating_sub(slot.queued_at.get());
        if slot.life.get() == Life::Unstarted {
            tally.started += 1;
            tally.started_wait += wait;
            tally.started_wait_max = tally.started_wait_max.max(wait);
        } else {
            tally.resumed += 1;
            tally.resumed_wait += wait;
            tally.resumed_wait_max = tally.resumed_wait_max.max(wait);
        }
        self.sessions.enter(slot.session.get());
        self.running.set(Some(slot));
        // Nothing to drop in a waker of ours, so spare the call.
        let waker = ManuallyDrop::new(waker(self, slot));
        let mut context = Context::from_waker(&waker);
        // SAFETY: the vtable is the one that the slot was filled with.
        let done = unsafe { (slot.vtable.get().poll)(slot, self, &mut context) };
        self.running.set(None);
        self.sessions.enter(NO_SESSION);
        let flags = slot.flags.get();
        slot.flags.set(flags & !(RUNNING | WOKEN));
        if done {
            tally.completed += 1;
            self.finish(slot);
        } else {
            tally.suspended += 1;
            if flags & ENDED != 0 {
                self.discard(slot, CallError::Ended);
            } else if flags & WOKEN != 0 {
                self.requeue(slot);
            }
        }
    }

    /// An operation that re-enabled itself yields to all others of its stage.
    fn requeue(&self, slot: Slot) {
        let stage = usize::from(slot.stage.get());
        slot.set(QUEUED);
        slot.queued_at.set(self.now.get());
        self.stages[stage].queue.push_behind(slot);
    }

    fn cohort_ended(
        &self,
        stage: usize,
        local: &LocalStage,
        waiting: usize,
        time: u64,
        tally: &Tally,
    ) {
        let left = local.queue.len();
        local.cap.cohort_ended(left);
        if left == 0 && self.post.stages[stage].len() == 0 {
            self.ready.set(self.ready.get() & !(1 << stage));
        }
        let counters = &self.counters.stages[stage];
        counters.queue_length.set(waiting as u64);
        counters.queue_length_max.raise_to(waiting as u64);
        counters.queue_length_sum.add(waiting as u64);
        counters.started.add(tally.started);
        counters.started_wait.add(tally.started_wait);
        counters.started_wait_max.raise_to(tally.started_wait_max);
        counters.resumed.add(tally.resumed);
        counters.resumed_wait.add(tally.resumed_wait);
        counters.resumed_wait_max.raise_to(tally.resumed_wait_max);
        counters.completed.add(tally.completed);
        counters.suspended.add(tally.suspended);
        counters.run.add(time);
        counters.run_max.raise_to(time / (tally.size as u64).max(1));
        counters.cohorts.add(1);
        counters.cohort_max.raise_to(tally.size as u64);
        counters.cohort_sizes[cohort_bucket(tally.size as u64)].add(1);
        self.counters.busy.add(time);
    }
}
