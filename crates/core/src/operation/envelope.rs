//! Envelopes: slots in transit between processors.
//!
//! # Safety
//! The target accesses only the slot's payload (first the invocation, then the result), and the home
//! processor only its header, until the envelope returns. There are two exceptions: the target reads
//! the header's vtable and stage, which no thread writes meanwhile, and both access the
//! [`CancelFlag`](crate::operation::cancel_flag::CancelFlag), which is atomic. The rings
//! establish the happens-before relation between the two.

use crate::operation::slot::Slot;
use crate::panic::catch_panic;

/// A slot in transit to another processor, or back to its own.
pub(crate) struct Envelope(pub(crate) Slot);

// SAFETY: the contents of an envelope's payload are `Send` (the bounds of
// `crate::processor::remote::call`), and only one side at a time accesses each part of the slot (top of
// this file).
unsafe impl Send for Envelope {}

/// Drops the contents of an envelope that no processor will receive.
pub(crate) fn discard(Envelope(slot): Envelope) {
    // SAFETY: the vtable is the one that the envelope was filled with. The program is shutting down, so
    // no other code accesses the payload.
    slot.state.set(unsafe { (slot.vtable.get().remote.outcome)(slot) });
    catch_panic(|| slot.drop_work());
    catch_panic(|| slot.drop_output());
}
