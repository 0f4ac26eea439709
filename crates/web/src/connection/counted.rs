//! How many of something there are on a processor: connections, or requests of one.

use std::cell::Cell;
use std::rc::Rc;

/// One of them, until it is dropped.
pub(crate) struct Counted(Rc<Cell<usize>>);

impl Counted {
    /// One more.
    pub(crate) fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
