//! Slots on their way between processors.
//!
//! # Safety
//! The target touches the slot's payload alone (first the invocation, then the result) and the home
//! processor its header alone, until the envelope is home again. One word is shared and atomic
//! ([`CancelFlag`](crate::operation::cancel_flag::CancelFlag)). The rings carry the happens-before between
//! the two.

use crate::operation::slot::Slot;
use crate::panic::catch_panic;

/// A slot on its way to another processor, or home again.
pub(crate) struct Envelope(pub(crate) Slot);

// SAFETY: what travels in an envelope's payload is `Send` (the bounds of `crate::processor::remote::call`), and only one
// side at a time touches each part of the slot (top of this file).
unsafe impl Send for Envelope {}

/// Drops what travels in an envelope that nobody will receive.
pub(crate) fn discard(Envelope(slot): Envelope) {
    // SAFETY: the vtable is the one that the envelope was filled with; its payload is untouched by
    // others, since the program is at its end.
    slot.state.set(unsafe { (slot.vtable.get().remote.outcome)(slot) });
    catch_panic(|| slot.drop_work());
    catch_panic(|| slot.drop_output());
}
