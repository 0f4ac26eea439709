//! The processor's time for `quinn-proto`, which uses `Instant` of the standard library.

use std::time::{Duration, Instant};

/// Converts the time of a processor. Only differences matter, so simulations stay deterministic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now() }
    }

    /// The time of the running cohort.
    pub(crate) fn now(self) -> Instant {
        self.zero + phalanx::time::now()
    }

    /// Time from now until `at`.
    pub(crate) fn duration_until(self, at: Instant) -> Duration {
        at.saturating_duration_since(self.now())
    }
}
