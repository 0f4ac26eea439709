//! Who is told when a child has finished: its parent, a join of several children, or a waker.
//!
//! A join counts its unfinished children down and re-enables its parent once, at the last
//! (tr2001 §5.2.1). The counter is plain: results of children on other processors come home as
//! replies and are counted here, on the parent's processor.
//!
//! # Safety
//! A [`Waiter::Join`] points into a join future that is pinned inside its parent's closure. The
//! join owns the [`Call`](crate::Call)s of all its children, and dropping a call clears its child's
//! waiter; so the pointer is gone before the join is.

use std::cell::Cell;
use std::ptr::NonNull;
use std::task::Waker;

use crate::operation::Slot;
use crate::processor::Processor;

/// One re-enabling that is owed.
#[derive(Default)]
pub(crate) enum Waiter {
    #[default]
    None,
    /// An operation of this processor; the generation tells whether it is still the same.
    Operation { slot: Slot, generation: u32 },
    /// One of the children that a join waits for.
    Join(NonNull<Rendezvous>),
    /// Some other kind of task that polls on behalf of an operation.
    Waker(Waker),
}

impl Waiter {
    /// The one who polls with `waker`: the running operation itself, or whatever `waker` stands for.
    pub(crate) fn new(processor: &Processor, waker: &Waker) -> Self {
        match processor.running() {
            Some(slot) if crate::waker::names(waker, processor, slot) => {
                Self::Operation { slot, generation: slot.generation.get() }
            }
            _ => Self::Waker(waker.clone()),
        }
    }

    pub(crate) fn notify(self, processor: &Processor) {
        match self {
            Self::None => (),
            Self::Operation { slot, generation } => processor.enable(slot, generation),
            // SAFETY: the join is alive as long as this waiter is (top of the file).
            Self::Join(join) => unsafe { join.as_ref() }.arrive(processor),
            Self::Waker(waker) => waker.wake(),
        }
    }
}

/// The counter of a join.
#[derive(Default)]
pub struct Rendezvous {
    countdown: Countdown,
    parent: Cell<Waiter>,
}

impl Rendezvous {
    /// Waits for `children` arrivals on behalf of `parent`.
    pub(crate) fn await_arrivals(&self, children: usize, parent: Waiter) {
        self.countdown.start(children);
        self.parent.set(parent);
    }

    fn arrive(&self, processor: &Processor) {
        if self.countdown.arrive() {
            self.parent.take().notify(processor);
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
        let left = self.0.get().checked_sub(1).expect("more arrivals than children");
        self.0.set(left);
        left == 0
    }
}
