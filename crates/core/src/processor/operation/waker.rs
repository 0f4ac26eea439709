//! Wakers: operation ids that any thread may store for any length of time.
//!
//! A waker is one word, an [`OperationId`], so creating, cloning and dropping it is free. An id does not prove which
//! operation is in the slot ([`crate::operation::id`]).
//!
//! # Safety
//! The word is never used as a pointer, so the vtable's functions are sound for any word. An id is only used for
//! waking, which queues or polls a suspended operation. This is sound for any operation.

use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::mailbox::registry::mailbox_numbered;
use crate::operation::id::OperationId;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::processor::Processor;

/// The waker of the operation with this id.
#[inline]
pub(crate) fn waker(id: OperationId) -> Waker {
    let data = std::ptr::without_provenance(id.word() as usize);
    // SAFETY: the vtable is sound for any word (top of the file).
    unsafe { Waker::new(data, &VTABLE) }
}

/// The id in `waker`, if it belongs to an operation of this processor.
#[inline]
pub(crate) fn id_of(waker: &Waker, processor: &Processor) -> Option<OperationId> {
    let id = OperationId::from_word(waker.data().addr() as u64);
    let is_ours = std::ptr::eq(waker.vtable(), &raw const VTABLE);
    (is_ours && id.processor() == processor.waker_number).then_some(id)
}

/// A copy of `waker`, if it is an operation's. Runs no foreign code.
#[inline]
pub(crate) fn copy_own(waker: &Waker) -> Option<Waker> {
    let is_ours = std::ptr::eq(waker.vtable(), &raw const VTABLE);
    is_ours.then(|| self::waker(OperationId::from_word(waker.data().addr() as u64)))
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), wake, wake, |_| ());

fn wake(data: *const ()) {
    let id = OperationId::from_word(data.addr() as u64);
    let here = processor::try_current(|processor| {
        let is_ours = processor.waker_number == id.processor();
        if is_ours {
            processor.wake(id);
        }
        is_ours
    });
    if here != Some(true) {
        // The lock has been released, because waking calls the embedder's [`Unpark`](crate::Unpark).
        if let Some(mailbox) = mailbox_numbered(id.processor()) {
            mailbox.wake(id);
        }
    }
}

/// Wakes an operation or a foreign task. For runtimes that keep their own tables of waiters.
///
/// A panic of a foreign waker is caught and discarded. The waker of an operation does not panic, and costs no
/// more than [`Waker::wake`].
pub fn wake_catching_panics(waker: Waker) {
    if std::ptr::eq(waker.vtable(), &raw const VTABLE) {
        waker.wake()
    } else {
        catch_panic(|| waker.wake())
    }
}
