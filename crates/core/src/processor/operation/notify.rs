//! Waking the waiter of a completed child: its parent, a join of several children, or a foreign task.
//!
//! A slot stores its waiter as a [`Waker`]. The waker of an operation or of a join contains only an id ([`JoinId`]), so
//! cloning and dropping it is free. A foreign task's waker may run any code.
//!
//! The counter of a join is stored in its processor ([`crate::operation::join_table`]).
//!
//! # Safety
//! A join's waker is a word that is never used as a pointer, so its vtable is sound for any word.

use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::operation::join_table::JoinId;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::operation::waker;
use crate::processor::processor::Processor;

/// Wakes the waiter of a completed operation.
#[inline(always)]
pub(crate) fn notify(waiter: Waker, processor: &Processor) {
    match waker::id_of(&waiter, processor) {
        Some(id) => {
            // An id needs no destructor, so the indirect call of `drop` is avoided.
            std::mem::forget(waiter);
            processor.wake(id);
        }
        None => notify_other(waiter, processor),
    }
}

#[cold]
fn notify_other(waiter: Waker, processor: &Processor) {
    if std::ptr::eq(waiter.vtable(), &raw const JOIN) {
        child_finished(processor, join_of(waiter.data()))
    } else {
        catch_panic(|| waiter.wake())
    }
}

pub(crate) static JOIN: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &JOIN), arrive, arrive, |_| ());

fn arrive(data: *const ()) {
    processor::try_current(|processor| child_finished(processor, join_of(data)));
}

pub(crate) fn join_of(data: *const ()) -> JoinId {
    JoinId::from_word(data.addr() as u64)
}

/// The waker that a join registers with its children.
pub(crate) fn join_waker(join: JoinId) -> Waker {
    // SAFETY: the vtable is sound for any word (top of the file).
    unsafe { Waker::new(std::ptr::without_provenance(join.word() as usize), &JOIN) }
}

fn child_finished(processor: &Processor, join: JoinId) {
    if let Some(parent) = processor.waiting.joins.arrive(join) {
        notify(parent, processor);
    }
}
