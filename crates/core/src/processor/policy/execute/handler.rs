//! Cohort operations: stages whose handler receives the whole cohort as a slice.
//!
//! An invocation of such a stage is not code but an *item*. It is stored in a slot and waits in the stage's queue like
//! any operation, so the same policies, order, bounds, sessions and counters apply. When the stage runs, the items of
//! the cohort are moved into one vector, and the stage's handler is called once.
//!
//! # Safety
//! The queue of a stage that has a [`CohortHandler`] contains only slots that were filled through handles of this
//! stage, which have the key and the types of its declaration ([`crate::handle::stage`]). `enqueue_item` filled them
//! with `Item<I, O>`, which is alive while the slot's state is `Unstarted`. Taking the item out leaves the
//! [`RemoteReply`](crate::processor::remote::reply::RemoteReply) at the payload's start, and the state becomes `Taken`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::CallError;
use crate::metrics::type_name::display_name;
use crate::operation::state::{CANCELLED, NO_SESSION, QUEUED};
use crate::panic::discard_panic;
use crate::processor::processor::Processor;
use crate::processor::run::cohort::RunningCohort;
use crate::processor::run::cohort_stats::bump;
use crate::stage::cohort_handler::{CohortHandler, Lost};

impl Processor {
    /// Takes queued items, up to the stage's largest cohort, and calls the handler once.
    pub(crate) fn run_handler<W>(
        &self,
        cohort: &RunningCohort<'_, W>,
        handler: &dyn CohortHandler,
    ) {
        let RunningCohort { stage, local, order, start, ref stats, .. } = *cohort;
        let (mut taken_items, mut last) = (0u64, None);
        self.scratch.replies.next_cohort();
        while stats.size.get() < local.max_cohort.get() {
            let envelope = match stats.remote_left.get() {
                0 => None,
                _ => self.next_of_remote_share(cohort),
            };
            let next = envelope.or_else(|| local.queue.pop(order));
            let Some(slot) = next.or_else(|| self.next_remote(stage)) else { break };
            stats.size.set(stats.size.get() + 1);
            if slot.has(CANCELLED) {
                bump(&stats.ended);
                self.discard(slot, CallError::Cancelled);
                continue;
            }
            if slot.session.get() != NO_SESSION && self.is_expired(slot, start) {
                self.shed_expired(slot, stats);
                continue;
            }
            stats.started.add(start.saturating_sub(slot.queued_since()));
            slot.clear(QUEUED);
            self.scratch.replies.mark(slot);
            self.observe.counters.watch.operation(slot);
            last = Some((slot.vtable.get(), slot.site.get()));
            // SAFETY: the slot is from this stage's queue and has not been started (top of the file).
            unsafe { handler.take_item(self.identity, slot) };
            taken_items += 1;
        }
        let Some((vtable, site)) = last else { return };
        self.scratch.replies.begin();
        let panic = catch_unwind(AssertUnwindSafe(|| handler.handle())).err();
        handler.clear();
        let (answered_count, lost) = self.scratch.replies.end();
        let name = self.stage_name(stage as u8);
        let error = panic.as_deref().map_or(CallError::ReplyDropped { stage: name }, |panic| {
            self.record_panic(stage as u8, display_name((vtable.operation)()), site, panic)
        });
        let mut failed = 0;
        for Lost { slot, serial, of_this_cohort } in lost {
            if !of_this_cohort {
                self.fail_suspended(slot, serial, error.clone());
                continue;
            }
            failed += 1;
            let counters = self.stage_counters(slot.stage.get());
            if self.fail_taken(slot, serial, error.clone()) && panic.is_some() {
                bump(&stats.panicked);
                counters.panicked.add(1);
            }
        }
        // Items with kept replies count as suspended operations.
        stats.suspended.set(taken_items.saturating_sub(answered_count + failed));
        if let Some(panic) = panic {
            discard_panic(panic);
        }
    }
}
