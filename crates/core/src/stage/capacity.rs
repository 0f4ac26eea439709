//! The capacity of a stage's queue on one processor.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// The capacity of a stage on one processor, and the operations that wait for it.
pub(crate) struct CapacityLimit {
    /// The capacity, in operations; `usize::MAX` if there is none.
    pub(crate) bound: usize,
    /// The wakers of waiters, with their tickets.
    pub(crate) waiting: RefCell<Vec<(u64, Waker)>>,
    tickets: Cell<u64>,
    /// The number of invocations of the stage in this processor's outbox, by target.
    pub(crate) outbound: Box<[Cell<usize>]>,
    /// Whether an invocation was rejected although this processor's queue had room, and no waiter has observed that
    /// yet.
    full_elsewhere: Cell<bool>,
}

impl CapacityLimit {
    pub(crate) fn new(bound: usize, processors: usize) -> Self {
        Self {
            bound,
            waiting: RefCell::default(),
            tickets: Cell::new(0),
            outbound: (0..processors).map(|_| Cell::new(0)).collect(),
            full_elsewhere: Cell::new(false),
        }
    }

    pub(crate) fn is_some(&self) -> bool {
        self.bound < usize::MAX
    }

    /// Records a rejection. `has_room` tells whether this processor's queue had room.
    pub(crate) fn rejected(&self, has_room: bool) {
        self.full_elsewhere.set(has_room);
    }

    /// Whether an invocation was rejected although this processor's queue had room. Each rejection is returned once.
    pub(crate) fn take_full_elsewhere(&self) -> bool {
        self.full_elsewhere.take()
    }

    /// A ticket that no other waiter has.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.set(self.tickets.get() + 1);
        self.tickets.get()
    }

    /// Removes the waker with this ticket, unless it was woken.
    pub(crate) fn remove(&self, ticket: u64) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let at = waiting.iter().position(|(other, _)| *other == ticket)?;
        Some(waiting.remove(at).1)
    }

    /// Takes all wakers.
    pub(crate) fn take_waiting(&self) -> impl Iterator<Item = Waker> + use<> {
        self.waiting.take().into_iter().map(|(_, waker)| waker)
    }
}
