//! Waking, cancelling and ending operations. Steps 4 to 7 of their [life cycle](super).

use crate::error::CallError;
use crate::mailbox::fault_injection::{Fault, fires};
use crate::operation::id::OperationId;
use crate::operation::slot::Slot;
use crate::operation::state::{
    CANCELLED, DYING, HELD, NO_SESSION, OUTER, QUEUED, Serial, SlotState, WOKEN,
};
use crate::processor::operation::notify::notify;
use crate::processor::processor::Processor;

impl Processor {
    /// Re-enables a suspended operation, if the slot still contains the operation with this id.
    #[inline]
    pub(crate) fn enable(&self, id: OperationId) {
        let Some(slot) = self.slab().get(id.index()) else { return };
        if slot.id.get() != id {
            return;
        }
        let flags = slot.flags.get();
        if self.current.running() == Some(slot) || flags & OUTER != 0 {
            slot.flags.set(flags | WOKEN);
        } else if flags & (QUEUED | CANCELLED | DYING) == 0
            && slot.state.get() == SlotState::Started
        {
            if fires(Fault::LostWakeUp) {
                return;
            }
            slot.flags.set(flags | QUEUED);
            self.push(slot, usize::from(slot.stage.get()));
            if fires(Fault::DoubleRun) {
                self.push(slot, usize::from(slot.stage.get()));
            }
        }
    }

    /// Cancels operations: immediately if they are suspended, otherwise before they would run or when they
    /// next suspend. All are marked first, so that the cancellation of one does not re-enable another.
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
        // A panic in the destructor is discarded; the operation fails with the first reason.
        self.observe.counters.watch.destroy(slot, || slot.drop_work());
        slot.clear(DYING);
        if slot.has(HELD) {
            slot.fail(error);
        }
        self.finish(slot);
    }

    /// Ends an operation: wakes its waiter, or frees the slot if no call holds it.
    ///
    /// Every rare case is a call at the end, so that the usual one saves no registers.
    #[inline(always)]
    pub(crate) fn finish(&self, slot: Slot) {
        match slot.session.get() {
            NO_SESSION => self.wake_waiter_or_free(slot),
            _ => self.finish_in_session(slot),
        }
    }

    /// Takes an operation that is over out of its session, and ends it.
    #[inline(never)]
    fn finish_in_session(&self, slot: Slot) {
        self.deliver(self.waiting.sessions.remove(slot));
        self.wake_waiter_or_free(slot);
    }

    #[inline(always)]
    fn wake_waiter_or_free(&self, slot: Slot) {
        if !slot.has(HELD) {
            self.free(slot);
        } else if let Some(waiter) = slot.waiter.take() {
            // Taken before the call: the woken code may look at the slot.
            notify(waiter, self);
        }
    }

    /// Drops unclaimed output and frees the slot.
    #[inline(always)]
    pub(crate) fn free(&self, slot: Slot) {
        if slot.is_bare() { self.slab().give(slot) } else { self.free_with_output(slot) }
    }

    #[inline(never)]
    fn free_with_output(&self, slot: Slot) {
        // A destructor that panics must neither leak the slot nor end the cohort.
        self.observe.counters.watch.destroy(slot, || slot.drop_output());
        self.slab().give(slot);
    }

    /// Cancels all operations of this processor.
    pub(crate) fn cancel_all(&self) {
        let alive = self.slab().slots().rev().filter(|slot| slot.state.get() != SlotState::Free);
        let members: Vec<_> = alive.map(|slot| (slot, slot.serial.get())).collect();
        self.cancel_each(&members);
    }
}
