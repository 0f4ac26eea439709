//! Who is told when a child has finished: its parent, a join of several children, or a waker.
//!
//! A slot keeps the one who waits for it as a [`Waker`]: an operation's own, which is a name and
//! costs nothing, a foreign task's, or a join's, which is a name too ([`JoinName`]).
//!
//! A join counts its unfinished children down and re-enables its parent once, at the last
//! (tr2001 §5.2.1). The counter is plain: results of children on other processors come home as
//! replies and are counted here, on the parent's processor. It lives in the processor and not in the
//! join's future, so that a future which is dropped where it cannot reach its processor leaves a
//! stale name behind and not a dangling pointer.
//!
//! # Safety
//! A join's waker is a word that is never used as a pointer, so its vtable is sound for any word.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::processor::processor::{self, Processor};
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
        true => processor.joins.arrive(processor, JoinName::of(waiter.data())),
        false => contain(|| waiter.wake()),
    }
}

/// Runs code of others at a place where its panic must not stop ours.
pub(crate) fn contain(foreign: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) {
        discard_panic(payload);
    }
}

/// Drops what a panic carried. That may panic in its turn, and so may what that carries; but at some
/// point enough has been said.
pub(crate) fn discard_panic(mut payload: Box<dyn std::any::Any + Send>) {
    for _ in 0..4 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(again) => payload = again,
        }
    }
    std::mem::forget(payload);
}

/// Names one wait of one join of this processor; a stale name names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JoinName {
    index: u32,
    generation: u32,
}

impl JoinName {
    fn of(data: *const ()) -> Self {
        let word = data.addr() as u64;
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }

    /// What its children are given to wake.
    pub(crate) fn waker(self) -> Waker {
        let word = u64::from(self.generation) << 32 | u64::from(self.index);
        // SAFETY: the vtable is sound for any word (top of the file).
        unsafe { Waker::new(std::ptr::without_provenance(word as usize), &JOIN) }
    }
}

static JOIN: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &JOIN), arrive, arrive, |_| ());

fn arrive(data: *const ()) {
    processor::try_current(|processor| processor.joins.arrive(processor, JoinName::of(data)));
}

/// The counters of one processor's joins.
#[derive(Default)]
pub(crate) struct Joins {
    records: RefCell<Vec<Rendezvous>>,
    free: RefCell<Vec<u32>>,
}

#[derive(Default)]
struct Rendezvous {
    countdown: Countdown,
    generation: u32,
    parent: Option<Waker>,
}

impl Joins {
    /// A new wait for `children` arrivals on behalf of `parent`; it takes the place of `before`.
    pub(crate) fn await_arrivals(
        &self,
        before: Option<JoinName>,
        children: usize,
        parent: Waker,
    ) -> JoinName {
        if let Some(before) = before {
            self.close(before);
        }
        let mut records = self.records.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            records.push(Rendezvous::default());
            (records.len() - 1) as u32
        });
        let record = &mut records[index as usize];
        record.countdown.start(children);
        record.parent = Some(parent);
        JoinName { index, generation: record.generation }
    }

    /// How many joins wait.
    pub(crate) fn waiting(&self) -> usize {
        self.records.borrow().len() - self.free.borrow().len()
    }

    /// The wait is over, or nobody waits any more.
    pub(crate) fn close(&self, name: JoinName) {
        // Dropped after the borrow: it may be foreign.
        let parent = {
            let mut records = self.records.borrow_mut();
            let record = &mut records[name.index as usize];
            if record.generation != name.generation {
                return;
            }
            record.generation = record.generation.wrapping_add(1);
            self.free.borrow_mut().push(name.index);
            record.parent.take()
        };
        contain(|| drop(parent));
    }

    /// Gives back who waits, at the processor's end.
    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        self.records.get_mut().iter_mut().filter_map(|record| record.parent.take()).collect()
    }

    fn arrive(&self, processor: &Processor, name: JoinName) {
        let parent = match self.records.borrow_mut().get_mut(name.index as usize) {
            Some(record) if record.generation == name.generation && record.countdown.arrive() => {
                record.parent.take()
            }
            _ => None,
        };
        if let Some(parent) = parent {
            notify(parent, processor);
        }
    }
}

/// Counts arrivals down; the last one is told.
#[derive(Default)]
pub(crate) struct Countdown(Cell<usize>);

impl Countdown {
    pub(crate) fn start(&self, arrivals: usize) {
        self.0.set(arrivals);
    }

    /// One arrival. True for the last.
    pub(crate) fn arrive(&self) -> bool {
        // More arrivals than children come from a stale name only, and mean nothing.
        let Some(left) = self.0.get().checked_sub(1) else { return false };
        self.0.set(left);
        left == 0
    }
}
