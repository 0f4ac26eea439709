//! `prefetch(&data).await`: start the load of a cache line, and let the cohort's next operation run
//! while it comes. Memory latency is hidden across requests, not within one.
//!
//! An operation that waits so goes neither through a waker nor through its stage's queue. It goes
//! into a small ring of its processor, and from there back into the same cohort, first in first
//! out, when the others have been started or [`MAX_INTERLEAVED`](crate::MAX_INTERLEAVED) wait. The ring is empty between cohorts.
//!
//! # Safety
//! A prefetch is a hint: it reads nothing and never faults, whatever the address. The instruction
//! touches no register and no flag of the program's.

use std::task::Context;

use crate::error::CallError;
use crate::operation::interleave_ring::MAX_INTERLEAVED;
use crate::operation::slot::Slot;
use crate::operation::state::{ENDED, FETCHING, NO_SESSION, QUEUED, SlotState, WOKEN};
use crate::processor::cohort_stats::CohortStats;
use crate::processor::processor::Processor;
use crate::processor::waker;
use crate::stage::local::LocalStage;
use crate::world::World;

/// A cohort ends after so many prefetches for each operation that it may have.
const MAX_FETCHES: usize = 64;

impl Processor {
    /// Whether the running operation, polled with `context`, is to suspend for a prefetch; if so,
    /// it is marked.
    pub(crate) fn may_interleave(&self, context: &Context<'_>) -> bool {
        // Inside of its caller an operation does not wait: the caller would wait with it.
        let Some(slot) = self.current.running().filter(|_| !self.stages.inline.is_inside()) else {
            return false;
        };
        // Under another's waker nothing would lead from here back to that task. An operation that
        // destroys itself or others is not polled again.
        if waker::named(context.waker(), self) != Some(slot.id.get())
            || slot.state.get() != SlotState::Started
            || !slot.has(QUEUED)
        {
            return false;
        }
        let stage = usize::from(slot.stage.get());
        let others = !self.scratch.interleaved.is_empty()
            || self.stage(stage).queue.len() > 0
            || self.link.mailbox().stages[stage].len() > 0;
        if !others || self.scratch.interleaved.is_full() {
            return false;
        }
        slot.set(FETCHING);
        true
    }

    /// An operation of the running cohort has suspended for a prefetch. It stays marked as queued,
    /// so that whatever else wakes it, or ends it, finds it where it is.
    #[inline(never)]
    pub(crate) fn interleave(&self, slot: Slot, stats: &CohortStats) {
        slot.clear(FETCHING | WOKEN);
        self.scratch.interleaved.push(slot);
        if self.scratch.interleaved.is_full() {
            // No more are started until some have gone on.
            stats.limit.set(0);
        }
    }

    /// Resumes each operation that waits for a prefetch, once. False when the cohort is over: then
    /// those that still wait have gone back into the stage's queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn resume_interleaved(
        &self,
        local: &LocalStage,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) -> bool {
        for _ in 0..self.scratch.interleaved.len() {
            let Some(slot) = self.scratch.interleaved.pop() else { break };
            stats.fetched.set(stats.fetched.get() + 1);
            self.resume(slot, stats);
        }
        self.current.set_running(None);
        let over = self.interleaving_is_over(local, start, world, stats);
        if over {
            while let Some(slot) = self.scratch.interleaved.pop() {
                stats.suspended.set(stats.suspended.get() + 1);
                slot.queued_at.set(self.now());
                local.queue.push(slot);
            }
        }
        !over
    }

    /// A round is short, but rounds without end would make a cohort without end. The clock is looked
    /// at once for many resumptions; and it may stand still, so these are bounded too.
    fn interleaving_is_over(
        &self,
        local: &LocalStage,
        start: u64,
        world: &impl World,
        stats: &CohortStats,
    ) -> bool {
        let fetched = stats.fetched.get();
        if fetched < stats.fetched_clock_read.get() {
            return false;
        }
        stats.fetched_clock_read.set(fetched + MAX_INTERLEAVED);
        fetched / MAX_FETCHES >= local.max_cohort.get()
            || world.now().saturating_sub(start) > local.cohort_time
    }

    fn resume(&self, slot: Slot, stats: &CohortStats) {
        if slot.has(ENDED) {
            self.current.set_running(None);
            stats.suspended.set(stats.suspended.get() + 1);
            return self.discard(slot, CallError::Cancelled);
        }
        if slot.session.get() != NO_SESSION {
            self.waiting.sessions.enter(slot.session.get());
        }
        self.poll_operation(slot, stats);
    }
}
