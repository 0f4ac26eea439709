//! Remote calls: how an invocation crosses to another processor, and how its result returns.
//!
//! The caller's slot is the envelope: it stays in the caller's slab, and only a pointer to it is sent.
//!
//! 1. The caller's thread reserves a slot, writes the invocation and a [`Transit`] into its payload, sets its
//!    state to `InTransit`, and puts the envelope into the outbox. The caller still owns all bytes.
//! 2. After the running cohort, the caller's thread moves the envelope from the outbox into the target's ring for the
//!    stage. From then on, the target owns the payload, and the caller owns only the header.
//! 3. The target's thread takes the envelope from the ring when the stage runs, and moves the invocation out
//!    of the payload. If the deadline has passed, the session has ended, or the stage or the processor is
//!    full, it replies with the error.
//! 4. The target's thread moves the invocation into a slot of its own slab and queues it. The payload of the envelope
//!    is now empty and belongs to the [reply](crate::processor::remote::reply). The target publishes the
//!    operation's location in the [`CancelFlag`].
//! 5. The operation completes, panics or is cancelled on the target's thread, which writes the result or the
//!    error into the payload and sends the envelope back through its outbox.
//! 6. The caller's thread takes the envelope from its ring of replies. It owns the payload again, sets the slot's state
//!    from the transit record, and wakes the call. If the call was dropped in the meantime, the slot is freed.
//!
//! Steps 3 and 4 are in [`accept`](crate::processor::remote::accept), step 5 in
//! [`reply`](crate::processor::remote::reply).
//!
//! A cancellation needs no separate envelope. The caller sets the [`CancelFlag`] in the payload. Before step 4, the
//! target finds the flag there. After step 4, the caller reads the operation's location from the flag and sends a
//! command.
//!
//! # Safety
//! The safety conditions of [`crate::operation::envelope`] apply. The bounds of [`Processor::call_on`] require that the
//! invocation and the result are `Send`.

use std::cell::Cell;

use crate::error::{CallError, Rejection};
use crate::mailbox::message::Message;
use crate::operation::cancel_flag::{CancelFlag, RemoteSlot};
use crate::operation::envelope::{Envelope, EnvelopePayload, Transit};
use crate::operation::slot::{Slot, VTable};
use crate::operation::state::{AWAITED, Serial, SlotState};
use crate::processor::operation::invoke::Invoked;
use crate::processor::operation::vtable::Invoke;
use crate::processor::processor::Processor;
use crate::processor::remote::accept::{Sent, operation_vtable};
use crate::stage::key::CallSite;

impl Processor {
    /// Invokes an operation on the processor numbered `target`.
    #[track_caller]
    pub(crate) fn call_on<F>(&self, call_site: CallSite, target: usize, f: F) -> Invoked<F::Result>
    where
        F: Invoke + Send,
        F::Result: Send,
    {
        if self.is_here(target) {
            self.call(call_site, f)
        } else {
            self.call_by_envelope(call_site, target, f)
        }
    }

    /// Invokes an operation through an envelope on the processor numbered `target`. If that is this processor, another
    /// one may take the envelope from the ring.
    #[track_caller]
    pub(crate) fn call_by_envelope<F>(
        &self,
        call_site: CallSite,
        target: usize,
        f: F,
    ) -> Invoked<F::Result>
    where
        F: Invoke + Send,
        F::Result: Send,
    {
        let vtable = operation_vtable::<F>();
        // SAFETY: the vtable is for envelopes of these types.
        unsafe { Invoked::new(self.call_remote::<F, F::Result>(call_site, target, vtable, f)) }
    }

    /// Whether the processor numbered `target` is this one.
    ///
    /// # Panics
    /// If there is no such processor.
    #[track_caller]
    pub(crate) fn is_here(&self, target: usize) -> bool {
        let processors = self.processors();
        assert!(target < processors, "no processor {target} in a program of {processors}");
        target == self.index()
    }

    /// Sends an invocation, or an item of a cohort operation, in an envelope. A call awaits the result.
    ///
    /// # Safety
    /// The vtable is for envelopes of these types.
    #[track_caller]
    pub(crate) unsafe fn call_remote<F: Send, T: Send>(
        &self,
        CallSite { key, site }: CallSite,
        target: usize,
        vtable: &'static VTable,
        invocation: F,
    ) -> Result<Slot, Rejection> {
        self.check(key);
        let capacity = &self.stages[usize::from(key.stage())].cold.capacity;
        if capacity.is_some() {
            let queued = self.program().mailboxes[target].stages[usize::from(key.stage())].len();
            if queued + capacity.outbound[target].get() >= capacity.bound {
                let full = Rejection::stage_full(key.stage(), capacity.bound);
                return Err(self.reject_for(full, key.stage(), invocation));
            }
        }
        let Some(slot) = self.reserve::<EnvelopePayload<Sent<F>, T>>() else {
            return Err(self.reject(key.stage(), invocation));
        };
        slot.flags.set(AWAITED);
        slot.vtable.set(vtable);
        slot.stage.set(key.stage());
        slot.state.set(SlotState::InTransit);
        slot.set_sent_to(target);
        // SAFETY: the slot is newly reserved, its class was chosen for this payload, and no other thread has access to
        // it yet.
        unsafe {
            slot.payload::<Sent<F>>().write(Sent { group: self.current_group(), invocation });
            slot.transit().write(Transit {
                caller: self.index() as u16,
                caller_stage: self.running_stage() as u8,
                site,
                contents: Cell::new(SlotState::Unstarted),
                cancel: CancelFlag::default(),
            });
        }
        self.send(target, Message::Invocation(Envelope(slot)));
        Ok(slot)
    }

    /// Takes the result from an envelope that has returned, and delivers it to the waiting call. If the invocation
    /// returns unstarted, its target has ended, and it is cancelled.
    pub(crate) fn complete_remote(&self, Envelope(slot): Envelope) {
        assert_eq!(slot.state.get(), SlotState::InTransit, "an envelope returns once");
        // SAFETY: the envelope is here, so no other thread accesses the payload.
        slot.state.set(unsafe { (*slot.transit()).contents.get() });
        let (target, stage) = (slot.sent_to() as u16, slot.stage.get());
        self.on_behalf_of(target, stage, || match slot.state.get() {
            SlotState::Unstarted => self.discard(slot, CallError::Cancelled),
            _ => self.finish(slot),
        });
    }

    /// Cancels the operation of a call of this processor, on whichever processor it runs, unless it is over.
    pub(crate) fn cancel_child(&self, slot: Slot) {
        match slot.state.get() {
            SlotState::InTransit => {
                // SAFETY: this is the only shared part of an envelope in transit, and it is atomic.
                let location = unsafe { &(*slot.transit()).cancel }.cancel();
                if let Some(RemoteSlot { processor, index, serial }) = location {
                    // If the operation is over when the command arrives, the slot has another serial.
                    self.command(processor, move |there| there.cancel_child_at(index, serial));
                }
            }
            SlotState::Done | SlotState::Failed => (),
            _ => self.cancel_each(&[(slot, slot.serial.get())]),
        }
    }

    /// Like [`cancel_child`](Self::cancel_child), but without effect if the slot at `index` no longer belongs to that
    /// operation.
    pub(crate) fn cancel_child_at(&self, index: u32, serial: Serial) {
        let slot = self.slab().get(index).filter(|slot| slot.serial.get() == serial);
        if let Some(slot) = slot {
            self.cancel_child(slot);
        }
    }
}
