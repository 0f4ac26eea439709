//! Wakers: names of operations that any thread may hold, for as long as it likes.
//!
//! A waker is one word, the operation's [`OperationId`]: the low bits of its slot's generation, the
//! processor's number and the slot's index. The word stands ready in the slot's header, so making,
//! cloning and dropping a waker computes nothing. A name repeats after 2²⁴ uses of its slot. So it
//! proves nothing about what lives in the slot, and is good for one thing: an operation that is
//! re-enabled by another's old waker is polled once in vain. Code that reads or writes a payload, or
//! ends an operation, compares [`Serial`](crate::operation::state::Serial), which never repeats.
//!
//! # Safety
//! The word is never used as a pointer, so the vtable's functions are sound for any word at all.
//! Waking, the only use of a name, polls or queues an operation that is suspended, and is sound for
//! any operation.

use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::mailbox::registry::mailbox_numbered;
use crate::operation::id::OperationId;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::processor::Processor;

/// The waker of the operation named `name`.
#[inline]
pub(crate) fn waker(name: OperationId) -> Waker {
    let data = std::ptr::without_provenance(name.word() as usize);
    // SAFETY: the vtable is sound for any word (top of the file).
    unsafe { Waker::new(data, &VTABLE) }
}

/// The operation of this processor that `waker` names, if it names one.
#[inline]
pub(crate) fn named(waker: &Waker, processor: &Processor) -> Option<OperationId> {
    let name = OperationId::of_word(waker.data().addr() as u64);
    let ours = std::ptr::eq(waker.vtable(), &raw const VTABLE);
    (ours && name.processor() == processor.number()).then_some(name)
}

/// A copy of `waker`, if it is an operation's; without calling anything.
#[inline]
pub(crate) fn copy_own(waker: &Waker) -> Option<Waker> {
    let ours = std::ptr::eq(waker.vtable(), &raw const VTABLE);
    ours.then(|| self::waker(OperationId::of_word(waker.data().addr() as u64)))
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), wake, wake, |_| ());

fn wake(data: *const ()) {
    let name = OperationId::of_word(data.addr() as u64);
    let here = processor::try_current(|processor| {
        let ours = processor.number() == name.processor();
        if ours {
            processor.enable(name);
        }
        ours
    });
    if here != Some(true) {
        // Not under the lock: to wake calls the embedder's [`Unpark`](crate::Unpark).
        if let Some(mailbox) = mailbox_numbered(name.processor()) {
            mailbox.wake(name);
        }
    }
}

/// Wakes an operation or a foreign task. For a runtime's own tables of waiters.
///
/// A foreign waker is foreign code: if it panics, the panic is discarded. The waker of an operation
/// does not panic, and costs nothing more than [`Waker::wake`].
pub fn wake_contained(waker: Waker) {
    match std::ptr::eq(waker.vtable(), &raw const VTABLE) {
        true => waker.wake(),
        false => catch_panic(|| waker.wake()),
    }
}
