//! The handler of cohort operations on one processor, and the accounting of replies while it runs.
//!
//! # Safety
//! [`CohortHandler::take_item`] reads an item by its type. Its caller guarantees that the slot belongs to the handler's
//! stage, whose queue contains only slots that were filled through handles of that stage.

use std::cell::{Cell, RefCell};

use crate::gate::OperationName;
use crate::metrics::counters::StageCounters;
use crate::operation::slot::Slot;
use crate::operation::state::Serial;

/// A stage's handler on one processor, without its item and reply types.
pub(crate) trait CohortHandler {
    /// Moves the item out of `slot` and appends it to the cohort. `processor` is the identity of this processor.
    ///
    /// # Safety
    /// The slot came out of the queue of this handler's stage and is `Unstarted`.
    unsafe fn take_item(&self, processor: u32, slot: Slot);
    /// Calls the handler. May unwind.
    fn handle(&self);
    /// Drops the remaining items.
    fn clear(&self);
    /// Whether a cohort is in progress that prevents another from beginning.
    fn is_busy(&self) -> bool;
    /// The operation that handles the cohort in progress, once it has started.
    fn operation(&self) -> Option<OperationName>;
}

/// The cohort in progress of a stage that serves one cohort at a time.
#[derive(Default)]
pub(crate) struct SerialCohort {
    pub(crate) is_busy: Cell<bool>,
    pub(crate) handler: Cell<Option<OperationName>>,
}

/// The replies to the items of a handler on one processor.
#[derive(Default)]
pub(crate) struct ReplyAccounting {
    /// The number of the last cohort handled here. Its items store it instead of their queueing time.
    cohort: Cell<u64>,
    handling: Cell<bool>,
    answered: Cell<u64>,
    lost: RefCell<Vec<Lost>>,
}

/// A reply that was dropped while a handler ran.
pub(crate) struct Lost {
    pub(crate) slot: Slot,
    pub(crate) serial: Serial,
    /// Whether the reply belongs to the current cohort, not to an earlier one.
    pub(crate) of_this_cohort: bool,
}

impl ReplyAccounting {
    pub(crate) fn next_cohort(&self) {
        self.cohort.set(self.cohort.get() + 1);
    }

    /// Marks an item as part of the cohort being assembled.
    pub(crate) fn mark(&self, slot: Slot) {
        slot.set_cohort(self.cohort.get());
    }

    pub(crate) fn begin(&self) {
        self.handling.set(true);
        self.answered.set(0);
    }

    /// Like [`begin`](Self::begin), but for code that holds replies of earlier cohorts.
    pub(crate) fn begin_detached(&self) {
        self.next_cohort();
        self.begin();
    }

    pub(crate) fn end(&self) -> (u64, Vec<Lost>) {
        self.handling.set(false);
        (self.answered.get(), self.lost.take())
    }

    fn is_handling(&self, slot: Slot) -> bool {
        self.handling.get() && slot.cohort() == self.cohort.get()
    }

    /// Records a reply to an item. A reply within the handler's own cohort is added to the handler's count. A later
    /// reply is counted in the stage's counters, because its item was counted as suspended.
    pub(crate) fn answered(&self, slot: Slot, counters: &StageCounters) {
        if self.is_handling(slot) {
            self.answered.set(self.answered.get() + 1);
        } else {
            counters.resumed.add(1);
            counters.completed.add(1);
        }
    }

    /// Records a dropped reply. Returns `false` if no handler runs.
    pub(crate) fn lost(&self, slot: Slot, serial: Serial) -> bool {
        if self.handling.get() {
            let of_this_cohort = self.is_handling(slot);
            self.lost.borrow_mut().push(Lost { slot, serial, of_this_cohort });
        }
        self.handling.get()
    }
}
