//! Interleaving: `prefetch(&data).await` starts the load of a cache line and lets the cohort's next operation run in
//! the meantime. This hides memory latency across requests, not within one.
//!
//! An operation that waits for a prefetch uses neither a waker nor its stage's queue. It waits in a small FIFO ring of
//! its processor. It resumes in the same cohort once all other operations have been started or
//! [`MAX_INTERLEAVED`](crate::MAX_INTERLEAVED) operations wait. The ring is empty between cohorts.
//!
//! No server of this repository uses it; `phalanx-bench interleave` measures it.

use std::task::Context;

use crate::error::CallError;
use crate::operation::slot::Slot;
use crate::operation::state::{CANCELLED, FETCHING, NO_SESSION, QUEUED, SlotState, WOKEN};
use crate::processor::operation::waker;
use crate::processor::policy::execute::interleave_ring::MAX_INTERLEAVED;
use crate::processor::processor::Processor;
use crate::processor::run::cohort::RunningCohort;
use crate::processor::run::cohort_stats::{CohortStats, bump};
use crate::world::World;

/// Maximum number of prefetches in a cohort per operation that the cohort may contain.
const MAX_FETCHES: usize = 64;

impl Processor {
    /// Whether the running operation, polled with `context`, must suspend for a prefetch. If so, the operation is
    /// marked.
    pub(crate) fn may_interleave(&self, context: &Context<'_>) -> bool {
        // An inline operation does not suspend for a prefetch: its caller would wait with it.
        let Some(slot) = self.current.running().filter(|_| !self.stages.inline.is_nested()) else {
            return false;
        };
        // With another task's waker, the resumption would not reach that task. A destructor that polls this future
        // would not be polled again.
        if waker::id_of(context.waker(), self) != Some(slot.id.get())
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

    /// Adds an operation that has suspended for a prefetch to the ring. It stays marked as queued, so that
    /// other wake-ups and cancellations find it there.
    #[inline(never)]
    pub(crate) fn interleave(&self, slot: Slot, stats: &CohortStats) {
        slot.clear(FETCHING | WOKEN);
        self.scratch.interleaved.push(slot);
        if self.scratch.interleaved.is_full() {
            // The cohort starts no more operations until some have resumed.
            stats.limit.set(0);
        }
    }

    /// Resumes each operation in the ring once. Returns false at the end of the cohort; operations still in
    /// the ring have then returned to the stage's queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn resume_interleaved(&self, cohort: &RunningCohort<'_, impl World>) -> bool {
        let stats = &cohort.stats;
        for _ in 0..self.scratch.interleaved.len() {
            let Some(slot) = self.scratch.interleaved.pop() else { break };
            stats.fetched.set(stats.fetched.get() + 1);
            self.resume(slot, stats);
        }
        self.current.set_running(None);
        let is_over = self.interleaving_is_over(cohort);
        if is_over {
            while let Some(slot) = self.scratch.interleaved.pop() {
                bump(&stats.suspended);
                slot.set_queued(self.now());
                cohort.local.queue.push(slot);
            }
        }
        !is_over
    }

    /// Whether the cohort must end because of its time or its number of resumptions. The clock is read once for many
    /// resumptions. The number is bounded because a simulated clock may not advance.
    fn interleaving_is_over(&self, cohort: &RunningCohort<'_, impl World>) -> bool {
        let RunningCohort { local, start, world, stats, .. } = cohort;
        let fetched = stats.fetched.get();
        if fetched < stats.fetched_clock_read.get() {
            return false;
        }
        stats.fetched_clock_read.set(fetched + MAX_INTERLEAVED);
        fetched / MAX_FETCHES >= local.max_cohort.get()
            || world.now().saturating_sub(*start) > local.cohort_time
    }

    fn resume(&self, slot: Slot, stats: &CohortStats) {
        if slot.has(CANCELLED) {
            self.current.set_running(None);
            bump(&stats.suspended);
            return self.discard(slot, CallError::Cancelled);
        }
        if slot.session.get() != NO_SESSION {
            self.waiting.sessions.set_current(slot.session.get());
        }
        self.poll_operation(slot, stats);
    }
}
