//! Work of a given length.

use std::hint::black_box;
use std::time::Instant;

use crate::measure::minimum;

/// The number of steps that take a microsecond on an undisturbed core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    steps_per_us: f64,
}

/// Steps of a calibration, and calibrations of which the fastest counts.
const STEPS: u64 = 200_000;
const CALIBRATIONS: usize = 9;

impl Work {
    pub(super) fn calibrate() -> Self {
        let time = |_| {
            let start = Instant::now();
            steps(STEPS);
            start.elapsed().as_secs_f64() * 1e6
        };
        let fastest = minimum(&(0..CALIBRATIONS).map(time).collect::<Vec<_>>());
        Self { steps_per_us: STEPS as f64 / fastest }
    }

    /// Works for this many microseconds, without memory.
    pub(super) fn run(self, us: f64) {
        steps((us * self.steps_per_us) as u64);
    }
}

fn steps(count: u64) {
    let mut value = count;
    for _ in 0..count {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
