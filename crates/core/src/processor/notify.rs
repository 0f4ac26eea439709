//! Who is told when a child has finished: its parent, a join of several children, or a waker.
//!
//! A slot keeps the one who waits for it as a [`Waker`]: an operation's own, which is a name and
//! costs nothing, a foreign task's, or a join's, which is a name too ([`JoinId`]).
//!
//! A join counts its unfinished children down and re-enables its parent once, at the last
//! (tr2001 §5.2.1). The counter is plain: results of children on other processors come home as
//! replies and are counted here, on the parent's processor. It lives in the processor and not in the
//! join's future, so that a future which is dropped where it cannot reach its processor leaves a
//! stale name behind and not a dangling pointer.
//!
//! # Safety
//! A join's waker is a word that is never used as a pointer, so its vtable is sound for any word.

use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::operation::join_table::JoinId;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::processor::Processor;
use crate::processor::waker;

/// Tells the one who waits.
#[inline]
pub(crate) fn notify(waiter: Waker, processor: &Processor) {
    match waker::named(&waiter, processor) {
        Some(name) => {
            // A name has nothing to drop, so spare the call.
            std::mem::forget(waiter);
            processor.enable(name);
        }
        None => notify_other(waiter, processor),
    }
}

#[cold]
fn notify_other(waiter: Waker, processor: &Processor) {
    match std::ptr::eq(waiter.vtable(), &raw const JOIN) {
        true => child_finished(processor, join_of(waiter.data())),
        false => catch_panic(|| waiter.wake()),
    }
}

static JOIN: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &JOIN), arrive, arrive, |_| ());

fn arrive(data: *const ()) {
    processor::try_current(|processor| child_finished(processor, join_of(data)));
}

fn join_of(data: *const ()) -> JoinId {
    JoinId::of_word(data.addr() as u64)
}

/// The waker that the children of a join are given.
pub(crate) fn join_waker(join: JoinId) -> Waker {
    // SAFETY: the vtable is sound for any word (top of the file).
    unsafe { Waker::new(std::ptr::without_provenance(join.word() as usize), &JOIN) }
}

fn child_finished(processor: &Processor, join: JoinId) {
    if let Some(parent) = processor.waiting.joins.arrive(join) {
        notify(parent, processor);
    }
}
