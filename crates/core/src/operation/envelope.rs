//! Envelopes: slots in transit between processors.
//!
//! The payload of an envelope begins with its contents: the invocation on the way to the target, the result or the
//! error on the way back. It ends with a [`Transit`] in the last bytes of the slot, where code finds it without knowing
//! the type of the contents.
//!
//! # Safety
//! The target accesses only the slot's payload, and the caller's processor only its header, until the envelope returns.
//! There are two exceptions: the target reads the header's vtable, class and stage, which no thread writes while the
//! envelope is away, and both access the [`CancelFlag`], which is atomic. The rings establish the happens-before
//! relation between the two. [`Transit::contents`] states which member of the payload is alive.

use std::cell::Cell;

use crate::operation::cancel_flag::CancelFlag;
use crate::operation::size_class::CLASSES;
use crate::operation::slot::Site;
use crate::operation::slot::{Payload, Slot};
use crate::operation::state::SlotState;
use crate::panic::catch_panic;

/// A slot in transit to another processor, or back to its own.
pub(crate) struct Envelope(pub(crate) Slot);

// SAFETY: the contents of an envelope's payload are `Send` (the bounds of
// `crate::processor::remote::call`), and only one side at a time accesses each part of the slot (top of
// this file).
unsafe impl Send for Envelope {}

impl Envelope {
    /// The processor of the caller.
    pub(crate) fn caller(&self) -> usize {
        // SAFETY: written before the envelope left, and by no thread since.
        usize::from(unsafe { (*self.0.transit()).caller })
    }
}

/// The record of a slot in transit.
pub(crate) struct Transit {
    /// The processor of the caller.
    pub(crate) caller: u16,
    /// The stage that was running on the caller's processor.
    pub(crate) caller_stage: u8,
    pub(crate) site: Site,
    /// The state of the slot once it has returned.
    pub(crate) contents: Cell<SlotState>,
    /// Shared by the two processors while the envelope is away.
    pub(crate) cancel: CancelFlag,
}

/// The layout of the payload of an envelope with an invocation `F`. Used only for its size.
#[repr(C)]
pub(crate) struct EnvelopePayload<F, T>(Payload<F, (), T>, Transit);

impl Slot {
    /// The address of the transit record of a slot that was reserved for an [`EnvelopePayload`].
    pub(crate) fn transit(self) -> *mut Transit {
        let end = self.payload::<u8>().wrapping_add(CLASSES[usize::from(self.class.get())]);
        end.cast::<Transit>().wrapping_sub(1)
    }
}

const _: () = assert!(align_of::<Transit>() <= 64);

/// Drops the contents of an envelope that no processor will receive.
pub(crate) fn discard(Envelope(slot): Envelope) {
    // SAFETY: the program is shutting down, so no other code accesses the payload.
    slot.state.set(unsafe { (*slot.transit()).contents.get() });
    catch_panic(|| slot.drop_work());
    catch_panic(|| slot.drop_output());
}
