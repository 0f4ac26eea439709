//! The bound of a stage's queue on one processor.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// A stage's bound on one processor, and who waits for room.
pub(crate) struct CapacityLimit {
    /// Without one: the greatest number.
    pub(crate) bound: usize,
    pub(crate) waiting: RefCell<Vec<Waker>>,
    /// What this processor has in its outbox for the stage on others.
    pub(crate) outbound: Cell<usize>,
}

impl CapacityLimit {
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound, waiting: RefCell::default(), outbound: Cell::new(0) }
    }

    /// Gives back who waits, at the processor's end.
    pub(crate) fn clear(&self) -> Vec<Waker> {
        self.waiting.take()
    }

    pub(crate) fn is_some(&self) -> bool {
        self.bound < usize::MAX
    }
}
