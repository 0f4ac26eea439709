//! The handler of cohort operations on one processor, and the replies while it runs.
//!
//! # Safety
//! [`Batch::take`] reads an item by its type. Its caller promises that the slot is of the batch's stage, whose
//! handles alone fill the slots of its queue.

use std::cell::{Cell, RefCell};

use crate::metrics::counters::StageCounters;
use crate::operation::slot::Slot;
use crate::operation::state::Serial;

/// Counts one more.
#[inline(always)]
pub(crate) fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// A stage's handler on one processor, as [`Processor::run_batch`](crate::Processor::run_batch) sees it.
pub(crate) trait Batch {
    /// Moves the item of `slot`, on the processor with this identity, to the end of the cohort.
    ///
    /// # Safety
    /// The slot came out of the queue of this batch's stage and is `Unstarted`.
    unsafe fn take(&self, processor: u32, slot: Slot);
    /// Calls the handler. May unwind.
    fn handle(&self);
    /// Drops what is left.
    fn clear(&self);
    /// Whether a cohort is under way, and no other may begin.
    fn is_busy(&self) -> bool;
}

/// What is known while a handler runs.
#[derive(Default)]
pub(crate) struct BatchState {
    /// The number of the last cohort that was handled here. Its items have it in place of the time
    /// at which they were queued.
    cohort: Cell<u64>,
    handling: Cell<bool>,
    answered: Cell<u64>,
    lost: RefCell<Vec<Lost>>,
}

/// A reply that was dropped while a handler ran.
pub(crate) struct Lost {
    pub(crate) slot: Slot,
    pub(crate) serial: Serial,
    /// Not one that an earlier cohort has left.
    pub(crate) of_this_cohort: bool,
}

impl BatchState {
    pub(crate) fn next_cohort(&self) {
        bump(&self.cohort);
    }

    /// The item is of the cohort that is being made.
    pub(crate) fn mark(&self, slot: Slot) {
        slot.queued_at.set(self.cohort.get());
    }

    pub(crate) fn begin(&self) {
        self.handling.set(true);
        self.answered.set(0);
    }

    /// As [`begin`](Self::begin), for code that has replies of cohorts that were taken before.
    pub(crate) fn begin_later(&self) {
        self.next_cohort();
        self.begin();
    }

    pub(crate) fn end(&self) -> (u64, Vec<Lost>) {
        self.handling.set(false);
        (self.answered.get(), self.lost.take())
    }

    fn is_handling(&self, slot: Slot) -> bool {
        self.handling.get() && slot.queued_at.get() == self.cohort.get()
    }

    /// An item was answered. Its handler counts it; one that is answered after its cohort, in which it
    /// counts as suspended, is counted here.
    pub(crate) fn answered(&self, slot: Slot, counters: &StageCounters) {
        if self.is_handling(slot) {
            bump(&self.answered);
        } else {
            counters.resumed.add(1);
            counters.completed.add(1);
        }
    }

    /// A reply was dropped. False if no handler runs.
    pub(crate) fn lost(&self, slot: Slot, serial: Serial) -> bool {
        if self.handling.get() {
            let of_this_cohort = self.is_handling(slot);
            self.lost.borrow_mut().push(Lost { slot, serial, of_this_cohort });
        }
        self.handling.get()
    }
}
