//! How many of something there are on a processor: connections, or requests of one.

use std::cell::Cell;
use std::rc::Rc;

/// One of them, until it is dropped.
pub(crate) struct GaugeGuard(Rc<Cell<usize>>);

impl GaugeGuard {
    /// One more.
    pub(crate) fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
