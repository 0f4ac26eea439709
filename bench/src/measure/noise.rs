//! Detects noise: a fixed loop, timed next to a measurement.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Maximum slowdown of the loop relative to its best time in an undisturbed phase.
const MAX_SLOWDOWN: f64 = 1.15;

/// Initial samples for the best time.
const INITIAL_SAMPLES: usize = 5;

/// Timings of the loop.
#[derive(Debug)]
pub(crate) struct NoiseProbe {
    steps: u64,
    best: Duration,
}

impl NoiseProbe {
    /// A loop of `steps` dependent steps.
    pub(crate) fn new(steps: u64) -> Self {
        let best = (0..INITIAL_SAMPLES).map(|_| time(steps)).min();
        Self { steps, best: best.expect("at least one sample") }
    }

    /// Current slowdown relative to the best time; 1 is best.
    pub(crate) fn slowdown(&mut self) -> f64 {
        self.compare(time(self.steps))
    }

    fn compare(&mut self, time: Duration) -> f64 {
        self.best = self.best.min(time);
        time.as_secs_f64() / self.best.as_secs_f64().max(1e-9)
    }
}

/// Whether the slowdown indicates other load on the machine.
pub(crate) fn is_noisy(slowdown: f64) -> bool {
    slowdown > MAX_SLOWDOWN
}

fn time(steps: u64) -> Duration {
    let begun = Instant::now();
    let mut state = black_box(1_u64);
    for _ in 0..steps {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(state);
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_is_relative_to_the_best_time() {
        let ms = Duration::from_millis;
        let mut probe = NoiseProbe { steps: 1, best: ms(16) };
        assert_eq!([ms(20), ms(10), ms(15)].map(|time| probe.compare(time)), [1.25, 1.0, 1.5]);
        assert!(is_noisy(1.5) && !is_noisy(1.0));
    }
}
