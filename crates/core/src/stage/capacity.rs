//! The capacity of a stage's queue on one processor.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// The capacity of a stage on one processor, and the operations that wait for it.
#[derive(Default)]
pub(crate) struct CapacityLimit {
    /// The capacity, in operations; the maximum value for none.
    pub(crate) bound: usize,
    pub(crate) waiting: RefCell<Vec<Waker>>,
    /// Invocations of the stage in this processor's outbox for other processors.
    pub(crate) outbound: Cell<usize>,
}

impl CapacityLimit {
    pub(crate) fn is_some(&self) -> bool {
        self.bound < usize::MAX
    }
}
