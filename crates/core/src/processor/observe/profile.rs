//! The counters of a program, read from any thread.

use crate::metrics::view::{ProcessorView, Profile};
use crate::program::control::Control;

impl Control {
    /// A snapshot of one processor's counters.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn processor(&self, index: usize) -> ProcessorView {
        self.0.counters[index].view()
    }

    /// The nanoseconds for which the processor with this index has slept until `now`, which is a time of the program's
    /// clock in nanoseconds.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn parked(&self, index: usize, now: u64) -> u64 {
        self.0.counters[index].parked_until(now)
    }

    /// The stages' names in wavefront order.
    pub fn stages(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.stages.iter().map(|stage| stage.name)
    }

    /// A snapshot of all counters.
    pub fn profile(&self) -> Profile {
        Profile {
            stages: self.stages().collect(),
            processors: self.0.counters.iter().map(|counters| counters.view()).collect(),
        }
    }
}
