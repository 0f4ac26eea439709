//! A guard that counts live objects on a processor, for example connections.

use std::cell::Cell;
use std::rc::Rc;

/// An object that is counted until it is dropped.
pub(crate) struct GaugeGuard(Rc<Cell<usize>>);

impl GaugeGuard {
    /// Increments `count`.
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
