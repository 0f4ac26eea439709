//! The minimum queue delay of an interval.

use std::cell::Cell;

/// The minimum of the recorded delays, in nanoseconds.
pub(crate) struct IntervalMin(Cell<u64>);

impl Default for IntervalMin {
    fn default() -> Self {
        Self(Cell::new(u64::MAX))
    }
}

impl IntervalMin {
    #[inline(always)]
    pub(crate) fn add(&self, wait: u64) {
        if wait < self.0.get() {
            self.0.set(wait);
        }
    }

    /// Returns the minimum and resets it; zero if nothing was recorded.
    pub(crate) fn take(&self) -> u64 {
        match self.0.replace(u64::MAX) {
            u64::MAX => 0,
            wait => wait,
        }
    }
}
