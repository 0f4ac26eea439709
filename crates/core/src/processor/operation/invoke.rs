//! Invoking an operation, that is, reserving its slot and queueing it: steps 1 and 2 of its [life cycle](super).
//!
//! # Safety
//! Stages are indexed without bounds checks. A slot's stage comes from a [`Key`](crate::stage::key::Key).
//! [`Processor::check`] has verified that the key belongs to this processor's graph, so the stage exists. The row of
//! arcs is part of the processor's counters, which live as long as the processor, and has one counter for each stage.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::error::{CallError, Rejection};
use crate::operation::size_class::{assert_fits, class_of};
use crate::operation::slot::{Payload, Site, Slot, VTable};
use crate::operation::state::{AWAITED, NO_SESSION, QUEUED};
use crate::processor::operation::vtable::{Invoke, local_vtable};
use crate::processor::processor::Processor;
use crate::stage::key::CallSite;
use crate::stage::local::LocalStage;

/// The slot of an invocation that a call awaits, or the reason for its rejection.
#[must_use]
pub(crate) struct Invoked<T> {
    pub(crate) slot: Result<Slot, Rejection>,
    result: PhantomData<T>,
}

impl<T> Invoked<T> {
    /// # Safety
    /// The slot was filled with result type `T`, is `AWAITED`, and belongs to no call.
    #[inline(always)]
    pub(crate) unsafe fn new(slot: Result<Slot, Rejection>) -> Self {
        Self { slot, result: PhantomData }
    }
}

impl Processor {
    /// Invokes on this processor.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn call<F: Invoke>(&self, call_site: CallSite, invocation: F) -> Invoked<F::Result> {
        let invocation = ManuallyDrop::into_inner(self.check_for(call_site.key, invocation));
        let (site, stage) = (call_site.site, call_site.key.stage());
        // SAFETY: the slot is filled with the result type of `F`, and one call awaits it.
        unsafe { Invoked::new(self.enqueue(site, stage, AWAITED, invocation)) }
    }

    /// Invokes on this processor; the result is dropped.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn dispatch<F: Invoke>(
        &self,
        call_site: CallSite,
        invocation: F,
    ) -> Result<(), CallError> {
        let invocation = ManuallyDrop::into_inner(self.check_for(call_site.key, invocation));
        self.dispatched(self.enqueue(call_site.site, call_site.key.stage(), 0, invocation))
    }

    /// The result of a dispatch.
    #[inline(always)]
    pub(crate) fn dispatched(&self, queued: Result<Slot, Rejection>) -> Result<(), CallError> {
        queued.map(|_| ()).map_err(|rejection| self.rejection(rejection))
    }

    /// Puts an invocation into a slot and queues it here. `stage` comes from a checked key.
    #[inline(always)]
    pub(crate) fn enqueue<F: Invoke>(
        &self,
        site: Site,
        stage: u8,
        flags: u8,
        invocation: F,
    ) -> Result<Slot, Rejection> {
        // Inside a `ManuallyDrop`, the invocation needs no unwinding code and moves from registers into the slot.
        let invocation = ManuallyDrop::new(invocation);
        let vtable = local_vtable::<F>();
        // SAFETY: the vtable is for these types, and the invocation is not used again.
        unsafe {
            self.enqueue_as::<F, F::Future, F::Result>(site, stage, flags, vtable, &invocation)
        }
    }

    /// Like [`enqueue`](Self::enqueue), for any payload that has a vtable.
    ///
    /// # Safety
    /// The vtable is for payloads of these types. The invocation is moved: the caller does not use
    /// it again.
    #[inline(always)]
    pub(crate) unsafe fn enqueue_as<F, Fut, T>(
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
            // SAFETY: the invocation is moved here and not used again.
            return Err(self.reject(stage, unsafe { std::ptr::read(&raw const **invocation) }));
        };
        let class = const { class_of(size_of::<Payload<F, Fut, T>>()) } as u8;
        // SAFETY: the slot is fresh and its class was chosen for this payload.
        unsafe {
            slot.fill::<F, Fut, T>(vtable, site, stage, flags | QUEUED, class, invocation);
        }
        slot.set_queued(self.now());
        // SAFETY: room was made above, and no foreign code has run since.
        unsafe { local.queue.append(slot) };
        self.stages.set_ready(usize::from(stage));
        self.note_arc(usize::from(stage));
        Ok(slot)
    }

    /// Reserves a slot large enough for a `P`, in the running operation's session. Returns `None` if that is rejected.
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
        self.waiting.sessions.add(self.slab(), slot, session);
        Some(slot)
    }

    #[inline(always)]
    pub(crate) fn stage(&self, stage: usize) -> &LocalStage {
        debug_assert!(stage < self.stages.len());
        // SAFETY: see the top of the file.
        unsafe { self.stages.get_unchecked(stage) }
    }

    /// Counts an invocation at `stage` by the running stage.
    #[inline(always)]
    pub(crate) fn note_arc(&self, stage: usize) {
        // SAFETY: see the top of the file.
        unsafe { (*self.current.arc_row().add(stage)).add(1) };
    }
}
