//! Cycles of the time-stamp counter.

use std::time::{Duration, Instant};

/// Long enough to make the cost of the two readings negligible.
const CALIBRATION_TIME: Duration = Duration::from_millis(100);

/// Cycles per microsecond. Without a reliable time-stamp counter, nanoseconds.
pub(crate) fn per_microsecond() -> f64 {
    let clock = quanta::Clock::new();
    let (begun, first) = (Instant::now(), clock.raw());
    std::thread::sleep(CALIBRATION_TIME);
    let counted = clock.raw() - first;
    counted as f64 / (begun.elapsed().as_nanos() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_plausible() {
        let counted = super::per_microsecond();
        // From nanoseconds to the fastest processors.
        assert!((500.0..10_000.0).contains(&counted), "{counted}");
    }
}
