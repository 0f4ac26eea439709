//! The handle by which any thread controls and observes a program.

use std::sync::Arc;

use crate::metrics::view::{ProcessorView, Profile};
use crate::program::program::{Phase, Program};

/// A control handle on a program: its phase and its counters. Usable from any thread; within an
/// operation, see [`drain`](crate::drain).
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Program>);

impl Control {
    /// Requests shutdown after the current work ([`Phase::Draining`]). Operations can read the phase by
    /// [`Control::phase`]. Processors return from their loops when no work is left.
    pub fn drain(&self) {
        self.0.advance(Phase::Draining);
    }

    /// Cancels every operation ([`Phase::Ending`]). Processors return when the last resource is
    /// released.
    pub fn end(&self) {
        self.0.advance(Phase::Ending);
    }

    /// The current phase of the program.
    pub fn phase(&self) -> Phase {
        self.0.phase()
    }

    /// A snapshot of one processor's counters.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn processor(&self, index: usize) -> ProcessorView {
        self.0.counters[index].view()
    }

    /// Nanoseconds that processor number `index` has slept until `now`, a time of the clock in nanoseconds.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn parked(&self, index: usize, now: u64) -> u64 {
        let counters = &self.0.counters[index];
        let (ended, since) = (counters.parked.get(), counters.parked_since.get());
        ended + if since == 0 { 0 } else { now.saturating_sub(since) }
    }

    /// The bytes of a processor's second-level cache, as set by
    /// [`Graph::cache_bytes`](crate::Graph::cache_bytes) or assumed.
    pub fn cache_bytes(&self) -> usize {
        self.0.settings.cache()
    }

    /// The number of processors of the program.
    pub fn processors(&self) -> usize {
        self.0.counters.len()
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
