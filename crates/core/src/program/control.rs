//! The handle with which any thread controls and observes a program.

use std::sync::Arc;

use crate::program::program::{Phase, Program};

/// A handle that controls and observes a program from any thread. Operations should not store one; see
/// [`drain`](crate::drain).
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Program>);

impl Control {
    /// Requests a shutdown after the current work ([`Phase::Draining`]). Servers should watch [`Control::phase`] and
    /// stop accepting work. Processors return from their loops when no work is left.
    pub fn drain(&self) {
        self.0.advance(Phase::Draining);
    }

    /// Cancels every operation ([`Phase::Ending`]). Processors return from their loops when the last resource is
    /// released.
    pub fn end(&self) {
        self.0.advance(Phase::Ending);
    }

    /// The current phase of the program.
    pub fn phase(&self) -> Phase {
        self.0.phase()
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
}
