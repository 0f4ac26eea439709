//! The load of a processor, which is the fraction of an interval in which it was awake.

use std::time::Duration;

/// A processor's load in the last interval.
#[derive(Clone, Copy, Default)]
pub(crate) struct LoadSample {
    at: Duration,
    parked_ns: u64,
    /// Per mille of time awake.
    load: u32,
}

impl LoadSample {
    /// Per mille of time awake.
    pub(crate) fn load(self) -> u32 {
        self.load
    }

    /// The time since the measurement.
    pub(crate) fn age(self, at: Duration) -> Duration {
        at.saturating_sub(self.at)
    }

    /// The load since this measurement. `parked_ns` is the time asleep until `at`, in nanoseconds.
    pub(crate) fn next(self, at: Duration, elapsed: Duration, parked_ns: u64) -> Self {
        // A sleep may end while the counters are read, so the sum may be slightly too small.
        let parked = u128::from(parked_ns.saturating_sub(self.parked_ns));
        let asleep = (1_000 * parked / elapsed.as_nanos().max(1)).min(1_000) as u32;
        Self { at, parked_ns, load: 1_000 - asleep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_the_time_awake() {
        let second = Duration::from_secs(1);
        let load = |parked_ns| LoadSample::default().next(second, second, parked_ns).load;
        assert_eq!(load(0), 1_000, "it never slept");
        assert_eq!(load(1_000_000_000), 0, "it never woke");
        assert_eq!(load(250_000_000), 750);
        assert_eq!(load(3_000_000_000), 0, "the clock of the measurement was behind");
    }
}
