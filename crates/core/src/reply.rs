//! The reply that a cohort operation owes for an item: given at once, or kept and given later.
//!
//! # Safety
//! A reply is made for one slot when its item is taken out, by the code that knows the result's type
//! ([`crate::batch`]). The slot's life is then `Taken`, its payload an [`Owed`] and nothing else. A
//! slot is touched only while this thread's current processor is the slot's, and written to only
//! while its name and its life say that this item's reply is still awaited; so each is answered
//! once, by its reply, its session's end or its processor's.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::error::CallError;
use crate::operation::{HELD, Life, Slot};
use crate::processor::{self, Processor};
use crate::remote::Owed;
use crate::waker::Name;

/// The means to answer one item of a cohort. It may be kept, or moved into an operation, and
/// answered later; it stays on its processor.
///
/// Dropped, it tells the caller [`CallError::Unanswered`]. Whoever waits may have gone meanwhile, or
/// its session may have ended; the value is then dropped.
///
/// ```compile_fail
/// fn leaves_its_thread(reply: phalanx_core::Reply<u32>) {
///     std::thread::spawn(move || reply.send(1)); // a reply is not `Send`
/// }
/// ```
#[must_use = "a dropped reply tells the caller an error"]
pub struct Reply<O> {
    slot: Slot,
    name: Name,
    identity: u32,
    value: PhantomData<*mut O>,
}

impl<O> Reply<O> {
    /// # Safety
    /// The slot is this processor's, `Taken`, of result type `O`, and has no other reply.
    pub(crate) unsafe fn new(processor: &Processor, slot: Slot) -> Self {
        let (name, identity) = (slot.name.get(), processor.identity());
        Self { slot, name, identity, value: PhantomData }
    }

    /// Answers the caller.
    pub fn send(self, value: O) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the slot's result type is `O` (top of the file).
        processor::on(this.identity, |p| unsafe { p.answer(this.slot, this.name, value) });
    }
}

impl<O> Drop for Reply<O> {
    fn drop(&mut self) {
        processor::on(self.identity, |p| p.lose(self.slot, self.name));
    }
}

fn is_awaited(slot: Slot, name: Name) -> bool {
    slot.name.get() == name && slot.life.get() == Life::Taken
}

impl Processor {
    /// # Safety
    /// The slot's result type is `O`.
    unsafe fn answer<O>(&self, slot: Slot, name: Name, value: O) {
        if !is_awaited(slot, name) {
            return drop(value);
        }
        slot.life.set(Life::Empty);
        // SAFETY: `Taken` said that what is owed is alive, and it is read once; then nothing is
        // alive in the payload, which has room for the result.
        unsafe {
            let mut owed = slot.payload::<Owed<O>>().read();
            if owed.is_nothing() {
                slot.payload::<O>().write(value);
                slot.life.set(Life::Done);
            } else {
                owed.send(Ok(value));
            }
        }
        self.batching.answered(self, slot);
        self.finish(slot);
    }

    /// A reply was dropped.
    fn lose(&self, slot: Slot, name: Name) {
        // While a handler runs it is not known yet why: it may be panicking.
        if is_awaited(slot, name) && !self.batching.lost(slot, name) {
            let counters = self.stage_counters(slot.stage.get());
            counters.ended.add(1);
            counters.ended_suspended.add(1);
            let stage = self.stage_name(slot.stage.get());
            self.fail_taken(slot, name, CallError::Unanswered { stage });
        }
    }

    /// Tells a caller that its item will not be answered. False if somebody else has done so.
    pub(crate) fn fail_taken(&self, slot: Slot, name: Name, error: CallError) -> bool {
        if !is_awaited(slot, name) {
            return false;
        }
        slot.life.set(Life::Empty);
        // SAFETY: `Taken` said that what is owed is alive, and it is read once; what it is owed of
        // does not matter to its layout, nor to an error.
        let mut owed = unsafe { slot.payload::<Owed<Infallible>>().read() };
        if slot.has(HELD) {
            slot.fail(error);
        } else {
            owed.send(Err(error));
        }
        self.finish(slot);
        true
    }
}
