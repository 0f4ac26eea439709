//! Cancelling and ending operations: steps 5 to 7 of their [life cycle](super).

use std::any::Any;

use crate::error::CallError;
use crate::operation::slot::Slot;
use crate::operation::state::{
    AWAITED, CANCELLED, DYING, NO_SESSION, QUEUED, Serial, SlotState, WOKEN,
};
use crate::panic::discard_panic;
use crate::processor::operation::notify::notify;
use crate::processor::processor::Processor;

impl Processor {
    /// Cancels operations: immediately if they are suspended, otherwise before they would run or when they next
    /// suspend. All are marked first, so that cancelling one does not wake another.
    pub(crate) fn cancel_each(&self, members: &[(Slot, Serial)]) {
        members.iter().for_each(|(slot, _)| slot.set(CANCELLED));
        for (slot, serial) in members {
            let same = slot.serial.get() == *serial;
            let suspended = matches!(slot.state.get(), SlotState::Started | SlotState::Taken);
            if same && suspended && !slot.has(QUEUED | DYING) {
                self.discard(*slot, CallError::Cancelled);
            }
        }
    }

    /// Drops an operation's work and stores `error` as its result.
    #[cold]
    pub(crate) fn discard(&self, slot: Slot, error: CallError) {
        let counters = self.stage_counters(slot.stage.get());
        match error {
            CallError::Panicked { .. } => counters.panicked.add(1),
            CallError::DeadlinePassed => counters.shed_deadline.add(1),
            _ => {
                counters.cancelled.add(1);
                let suspended = matches!(slot.state.get(), SlotState::Started | SlotState::Taken);
                counters.cancelled_suspended.add(u64::from(suspended));
            }
        }
        slot.clear(QUEUED | WOKEN);
        slot.set(DYING);
        // A panic in the destructor is discarded; the operation still fails with `error`.
        self.observe.counters.watch.destroy(slot, || slot.drop_work());
        slot.clear(DYING);
        if slot.has(AWAITED) {
            slot.fail(error);
        }
        self.finish(slot);
    }

    /// Fails an operation whose poll panicked.
    #[cold]
    pub(crate) fn fail_panicked(&self, slot: Slot, panic: Box<dyn Any + Send>) {
        let error = self.record_panic(slot.stage.get(), slot.operation(), slot.site.get(), &*panic);
        self.discard(slot, error);
        discard_panic(panic);
    }

    /// Ends an operation: wakes its waiter, or frees the slot if no call awaits it.
    ///
    /// Every rare case is a tail call, so that the common case saves no registers.
    #[inline(always)]
    pub(crate) fn finish(&self, slot: Slot) {
        match slot.session.get() {
            NO_SESSION => self.wake_waiter_or_free(slot),
            _ => self.finish_in_session(slot),
        }
    }

    /// Removes a completed operation from its session and ends it.
    #[inline(never)]
    fn finish_in_session(&self, slot: Slot) {
        self.deliver(self.waiting.sessions.remove(slot));
        self.wake_waiter_or_free(slot);
    }

    #[inline(always)]
    fn wake_waiter_or_free(&self, slot: Slot) {
        if !slot.has(AWAITED) {
            self.free(slot);
        } else if let Some(waiter) = slot.waiter.take() {
            // Taken before the call, because the woken code may access the slot.
            notify(waiter, self);
        }
    }

    /// Drops unclaimed output and frees the slot.
    #[inline(always)]
    pub(crate) fn free(&self, slot: Slot) {
        if slot.is_bare() { self.slab().release(slot) } else { self.free_with_output(slot) }
    }

    #[inline(never)]
    fn free_with_output(&self, slot: Slot) {
        // A destructor that panics must neither leak the slot nor end the cohort.
        self.observe.counters.watch.destroy(slot, || slot.drop_output());
        self.slab().release(slot);
    }

    /// Cancels all operations of this processor.
    pub(crate) fn cancel_all(&self) {
        let alive = self.slab().slots().rev().filter(|slot| slot.state.get() != SlotState::Free);
        let members: Vec<_> = alive.map(|slot| (slot, slot.serial.get())).collect();
        self.cancel_each(&members);
    }
}
