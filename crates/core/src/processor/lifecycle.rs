//! From an invocation to its end: placing it in a slot, queueing it, enabling it again, and what
//! becomes of the slot when it is over.
//!
//! # Safety
//! Stages are reached without asking whether they exist: a slot's stage comes from a [`Key`](crate::stage::key::Key) that
//! [`Processor::check`] has seen to be of this processor's graph, and the keys of a graph number its
//! stages. The row of arcs lies in the processor's counters, which live as long as it does, and has
//! one counter for each stage.

use std::future::Future;
use std::mem::ManuallyDrop;

use crate::error::{CallError, Refused};
use crate::memory::slab::{assert_fits, class_of};
use crate::operation::id::OperationId;
use crate::operation::published::Site;
use crate::operation::slot::{Payload, Slot, VTable};
use crate::operation::state::{
    DYING, ENDED, HELD, NO_SESSION, OUTER, QUEUED, Serial, SlotState, WOKEN,
};
use crate::panic::catch_panic;
use crate::processor::harness::local_vtable;
use crate::processor::notify::notify;
use crate::processor::processor::Processor;
use crate::stage::key::Invocation;
use crate::stage::local::LocalStage;

impl Processor {
    /// Invokes on this processor. The slot is held for the caller, who takes the result of type `T`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn call<F, Fut, T>(&self, from: Invocation, invocation: F) -> Result<Slot, Refused>
    where
        F: FnOnce(&Processor, u8) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let Invocation { key, site } = from;
        let invocation = self.check_for(key, invocation);
        self.place(site, key.stage(), HELD, ManuallyDrop::into_inner(invocation))
    }

    /// Invokes on this processor; the result is dropped.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn dispatch<F, Fut>(&self, from: Invocation, invocation: F) -> Result<(), CallError>
    where
        F: FnOnce(&Processor, u8) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let Invocation { key, site } = from;
        let invocation = self.check_for(key, invocation);
        match self.place(site, key.stage(), 0, ManuallyDrop::into_inner(invocation)) {
            Ok(_) => Ok(()),
            Err(refused) => Err(self.refusal(refused)),
        }
    }

    /// Puts an invocation into a slot and queues it here. `stage` is of a key that was checked.
    #[inline(always)]
    pub(crate) fn place<F, Fut, T>(
        &self,
        site: Site,
        stage: u8,
        flags: u8,
        invocation: F,
    ) -> Result<Slot, Refused>
    where
        F: FnOnce(&Processor, u8) -> Fut,
        Fut: Future<Output = T>,
    {
        // Without a destructor in its way the invocation goes from registers into the slot.
        let invocation = ManuallyDrop::new(invocation);
        // SAFETY: the vtable is of these types; the invocation is not used again.
        unsafe {
            self.place_as::<F, Fut, T>(site, stage, flags, local_vtable::<F, Fut, T>(), &invocation)
        }
    }

    /// The same for anything that a vtable knows.
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
    ) -> Result<Slot, Refused> {
        let local = self.stage(usize::from(stage));
        let slot =
            if local.queue.make_room() { self.reserve::<Payload<F, Fut, T>>() } else { None };
        let Some(slot) = slot else {
            // SAFETY: moved, and not used again.
            return Err(self.refuse(stage, unsafe { std::ptr::read(&raw const **invocation) }));
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

    /// A free slot with room for a `P`, in the running operation's session. None if it is refused.
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

    /// Counts a refusal and says why. The invocation is dropped; a panic in that is contained, since
    /// what refuses may be a processor's turn as well as the caller.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse<F>(&self, stage: u8, invocation: F) -> Refused {
        self.stage_counters(stage).rejected.add(1);
        let ended = self.waiting.sessions.has_ended(self.waiting.sessions.current());
        let local = &self.stages[usize::from(stage)];
        let reason = match self.slab().bound() {
            0 => Refused::ENDED,
            _ if ended => Refused::ENDED,
            bound => {
                self.stage_counters(stage).shed_full.add(1);
                match local.queue.has_room() {
                    true => Refused::full(bound),
                    false => Refused::stage_full(stage, local.runtime.capacity.bound),
                }
            }
        };
        catch_panic(|| drop(invocation));
        reason
    }

    #[inline(always)]
    pub(crate) fn stage(&self, stage: usize) -> &LocalStage {
        debug_assert!(stage < self.stages.len());
        // SAFETY: see the top of the file.
        unsafe { self.stages.get_unchecked(stage) }
    }

    /// Queues a slot at its stage, on behalf of whatever runs now.
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

    /// Counts an invocation at `stage` by what runs now.
    #[inline(always)]
    pub(crate) fn note_arc(&self, stage: usize) {
        // SAFETY: see the top of the file.
        unsafe { (*self.current.arc_row().add(stage)).add(1) };
    }

    /// Re-enables a suspended operation, if the slot still holds the one that is named.
    #[inline]
    pub(crate) fn enable(&self, name: OperationId) {
        let Some(slot) = self.slab().get(name.index()) else { return };
        if slot.id.get() != name {
            return;
        }
        let flags = slot.flags.get();
        if self.current.running() == Some(slot) || flags & OUTER != 0 {
            slot.flags.set(flags | WOKEN);
        } else if flags & (QUEUED | ENDED | DYING) == 0 && slot.state.get() == SlotState::Started {
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

    /// Ends operations that must not run on: at once if they are suspended, at the next chance if
    /// they are queued or running. All are marked first, so that none is re-enabled by another's end.
    pub(crate) fn cancel_each(&self, members: &[(Slot, Serial)]) {
        members.iter().for_each(|(slot, _)| slot.set(ENDED));
        for (slot, serial) in members {
            let same = slot.serial.get() == *serial;
            let suspended = matches!(slot.state.get(), SlotState::Started | SlotState::Taken);
            if same && suspended && !slot.has(QUEUED | DYING) {
                self.discard(*slot, CallError::Cancelled);
            }
        }
    }

    /// Drops an operation's work and leaves `error` in its place.
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
        // A destructor that panics has had its say; the operation fails with the first reason.
        catch_panic(|| slot.drop_work());
        slot.clear(DYING);
        if slot.has(HELD) {
            slot.fail(error);
        }
        self.finish(slot);
    }

    /// The operation is over: its result goes to whoever waits, or nowhere.
    #[inline(always)]
    pub(crate) fn finish(&self, slot: Slot) {
        if slot.session.get() != NO_SESSION {
            self.deliver(self.waiting.sessions.leave(slot));
        }
        if !slot.has(HELD) {
            self.free(slot);
        } else if let Some(waiter) = slot.waiter.take() {
            // Taken before the call: what it wakes may look at the slot.
            notify(waiter, self);
        }
    }

    /// Drops what is left in a finished slot, of which no waiter knows any more, and gives it back.
    #[inline(always)]
    pub(crate) fn free(&self, slot: Slot) {
        if !slot.is_bare() {
            // A destructor that panics must not take the slot with it, nor the cohort.
            catch_panic(|| slot.drop_output());
        }
        self.slab().give(slot);
    }

    /// Ends everything that lives here.
    pub(crate) fn cancel_all(&self) {
        let slots = (0..self.slab().capacity()).rev().filter_map(|index| self.slab().get(index));
        let alive = slots.filter(|slot| slot.state.get() != SlotState::Free);
        let members: Vec<_> = alive.map(|slot| (slot, slot.serial.get())).collect();
        self.cancel_each(&members);
    }
}
