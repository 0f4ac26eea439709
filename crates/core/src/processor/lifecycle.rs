//! The life cycle of an operation, from its invocation until its slot is free again. All steps run on the
//! processor's own thread.
//!
//! 1. Reserve: an invocation takes a slot of the size class of its payload from the slab, in the session of
//!    the running operation. If the slab is closed, the session has ended, or the slab or the stage is full,
//!    the invocation is rejected and dropped.
//! 2. Place: the invocation is moved into the slot (`Unstarted`), and the slot is appended to the queue of
//!    its stage, which becomes ready.
//! 3. Start: a cohort pops the slot, turns the invocation into its future in place (`Started`), and polls it
//!    (`cohort.rs`).
//! 4. Suspend: a pending operation is in no queue. A waker with its operation id
//!    [re-enables](Processor::enable) it, which queues it again. A wake-up during its own poll only sets
//!    `WOKEN`, and the cohort requeues it after the poll.
//! 5. Complete: the result replaces the future in the slot (`Done`). An operation that panics or is cancelled
//!    is [discarded](Processor::discard) instead: its work is dropped and the error takes its place
//!    (`Failed`).
//! 6. [Finish](Processor::finish): the operation leaves its session. If a call holds the slot (`HELD`), its
//!    waiter is woken; otherwise the slot is freed.
//! 7. Free: the call takes the result and frees the slot, or is dropped, in which case the unclaimed result
//!    is dropped first. Its id and its serial change then, so stale handles and wakers no longer match.
//!
//! # Safety
//! Stages are indexed without bounds checks. A slot's stage comes from a [`Key`](crate::stage::key::Key) that
//! [`Processor::check`] has found to belong to this processor's graph, and the keys of a graph number its
//! stages. The row of arcs lies in the processor's counters, which live as long as the processor, and has one
//! counter for each stage.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::error::{CallError, Rejection};
use crate::operation::id::OperationId;
use crate::operation::published::Site;
use crate::operation::size_class::{assert_fits, class_of};
use crate::operation::slot::{Payload, Slot, VTable};
use crate::operation::state::{
    CANCELLED, DYING, HELD, NO_SESSION, OUTER, QUEUED, Serial, SlotState, WOKEN,
};
use crate::panic::catch_panic;
use crate::processor::harness::{Invoke, local_vtable};
use crate::processor::notify::notify;
use crate::processor::processor::Processor;
use crate::stage::key::Invocation;
use crate::stage::local::LocalStage;

/// The slot of an invocation, held for the caller; or why the invocation was rejected.
#[must_use]
pub(crate) struct Placed<T> {
    pub(crate) slot: Result<Slot, Rejection>,
    result: PhantomData<T>,
}

impl<T> Placed<T> {
    /// # Safety
    /// The slot was filled with result type `T`, is `HELD`, and belongs to no call.
    #[inline(always)]
    pub(crate) unsafe fn new(slot: Result<Slot, Rejection>) -> Self {
        Self { slot, result: PhantomData }
    }
}

impl Processor {
    /// Invokes on this processor.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn call<F: Invoke>(&self, from: Invocation, invocation: F) -> Placed<F::Result> {
        let invocation = self.check_for(from.key, invocation);
        let invocation = ManuallyDrop::into_inner(invocation);
        // SAFETY: the slot is filled with the result type of `F`, and held for one call.
        unsafe { Placed::new(self.place(from.site, from.key.stage(), HELD, invocation)) }
    }

    /// Invokes on this processor; the result is dropped.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn dispatch<F: Invoke>(
        &self,
        from: Invocation,
        invocation: F,
    ) -> Result<(), CallError> {
        let invocation = ManuallyDrop::into_inner(self.check_for(from.key, invocation));
        self.dispatched(self.place(from.site, from.key.stage(), 0, invocation))
    }

    /// The result of a dispatch.
    #[inline(always)]
    pub(crate) fn dispatched(&self, placed: Result<Slot, Rejection>) -> Result<(), CallError> {
        match placed {
            Ok(_) => Ok(()),
            Err(rejection) => Err(self.rejection(rejection)),
        }
    }

    /// Puts an invocation into a slot and queues it here. `stage` comes from a checked key.
    #[inline(always)]
    pub(crate) fn place<F: Invoke>(
        &self,
        site: Site,
        stage: u8,
        flags: u8,
        invocation: F,
    ) -> Result<Slot, Rejection> {
        // In a `ManuallyDrop`, the invocation needs no unwinding code and moves from registers into the slot.
        let invocation = ManuallyDrop::new(invocation);
        // SAFETY: the vtable is of these types; the invocation is not used again.
        unsafe {
            self.place_as::<F, F::Future, F::Result>(
                site,
                stage,
                flags,
                local_vtable::<F>(),
                &invocation,
            )
        }
    }

    /// Like [`place`](Self::place), for any payload that has a vtable.
    ///
    /// # Safety
    /// The vtable is for payloads of these types. The invocation is moved: the caller does not use
    /// it again.
    #[inline(always)]
    pub(crate) unsafe fn place_as<F, Fut, T>(
        &self,
        site: Site,
        stage: u8,
        flags: u8,
        vtable: &'static VTable,
        invocation: &ManuallyDrop<F>,
    ) -> Result<Slot, Rejection> {
        let local = self.stage(usize::from(stage));
        let slot =
            if local.queue.make_room() { self.reserve::<Payload<F, Fut, T>>() } else { None };
        let Some(slot) = slot else {
            // SAFETY: moved, and not used again.
            return Err(self.reject(stage, unsafe { std::ptr::read(&raw const **invocation) }));
        };
        let class = const { class_of(size_of::<Payload<F, Fut, T>>()) } as u8;
        // SAFETY: the slot is fresh and its class was chosen for this payload.
        unsafe {
            slot.fill::<F, Fut, T>(vtable, site, stage, flags | QUEUED, class, invocation);
        }
        slot.queued_at.set(self.now());
        // SAFETY: room was made above; nothing foreign has run since.
        unsafe { local.queue.append(slot) };
        self.note_push(usize::from(stage));
        Ok(slot)
    }

    /// Reserves a slot large enough for a `P`, in the running operation's session. None if that is rejected.
    #[inline(always)]
    pub(crate) fn reserve<P>(&self) -> Option<Slot> {
        const { assert_fits::<P>() };
        let session = self.waiting.sessions.current();
        let class = const { class_of(size_of::<P>()) };
        match session {
            NO_SESSION => self.slab().take(class),
            session => self.reserve_in(session, class),
        }
    }

    #[inline(never)]
    fn reserve_in(&self, session: u32, class: usize) -> Option<Slot> {
        if self.waiting.sessions.has_ended(session) {
            return None;
        }
        let slot = self.slab().take(class)?;
        self.waiting.sessions.join(self.slab(), slot, session);
        Some(slot)
    }

    #[inline(always)]
    pub(crate) fn stage(&self, stage: usize) -> &LocalStage {
        debug_assert!(stage < self.stages.len());
        // SAFETY: see the top of the file.
        unsafe { self.stages.get_unchecked(stage) }
    }

    /// Queues a slot at its stage, on behalf of the running stage.
    #[inline(always)]
    fn push(&self, slot: Slot, stage: usize) {
        slot.queued_at.set(self.now());
        self.stage(stage).queue.push(slot);
        self.note_push(stage);
    }

    #[inline(always)]
    fn note_push(&self, stage: usize) {
        self.stages.set_ready(stage);
        self.note_arc(stage);
    }

    /// Counts an invocation at `stage` by the running stage.
    #[inline(always)]
    pub(crate) fn note_arc(&self, stage: usize) {
        // SAFETY: see the top of the file.
        unsafe { (*self.current.arc_row().add(stage)).add(1) };
    }

    /// Re-enables a suspended operation, if the slot still contains the operation with this id.
    #[inline]
    pub(crate) fn enable(&self, name: OperationId) {
        let Some(slot) = self.slab().get(name.index()) else { return };
        if slot.id.get() != name {
            return;
        }
        let flags = slot.flags.get();
        if self.current.running() == Some(slot) || flags & OUTER != 0 {
            slot.flags.set(flags | WOKEN);
        } else if flags & (QUEUED | CANCELLED | DYING) == 0
            && slot.state.get() == SlotState::Started
        {
            #[cfg(feature = "fault-injection")]
            if crate::mailbox::fault_injection::fires(
                crate::mailbox::fault_injection::Fault::LostWakeUp,
            ) {
                return;
            }
            slot.flags.set(flags | QUEUED);
            self.push(slot, usize::from(slot.stage.get()));
            #[cfg(feature = "fault-injection")]
            if crate::mailbox::fault_injection::fires(
                crate::mailbox::fault_injection::Fault::DoubleRun,
            ) {
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
        catch_panic(|| slot.drop_work());
        slot.clear(DYING);
        if slot.has(HELD) {
            slot.fail(error);
        }
        self.finish(slot);
    }

    /// Ends an operation: wakes its waiter, or frees the slot if no call holds it.
    #[inline(always)]
    pub(crate) fn finish(&self, slot: Slot) {
        if slot.session.get() != NO_SESSION {
            self.leave_session(slot);
        }
        if !slot.has(HELD) {
            self.free(slot);
        } else if let Some(waiter) = slot.waiter.take() {
            // Taken before the call: the woken code may look at the slot.
            notify(waiter, self);
        }
    }

    /// Takes an operation that is over out of its session. Out of line, since few operations have one.
    #[inline(never)]
    fn leave_session(&self, slot: Slot) {
        self.deliver(self.waiting.sessions.leave(slot));
    }

    /// Drops unclaimed output and frees the slot.
    #[inline(always)]
    pub(crate) fn free(&self, slot: Slot) {
        if !slot.is_bare() {
            // A destructor that panics must neither leak the slot nor end the cohort.
            catch_panic(|| slot.drop_output());
        }
        self.slab().give(slot);
    }

    /// Cancels all operations of this processor.
    pub(crate) fn cancel_all(&self) {
        let slots = (0..self.slab().capacity()).rev().filter_map(|index| self.slab().get(index));
        let alive = slots.filter(|slot| slot.state.get() != SlotState::Free);
        let members: Vec<_> = alive.map(|slot| (slot, slot.serial.get())).collect();
        self.cancel_each(&members);
    }
}
