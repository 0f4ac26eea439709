//! Whether the machine was calm: a loop that always does the same, timed beside what is measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// So much slower than its best the loop may be in a calm phase.
const MAX_SLOWDOWN: f64 = 1.15;

/// Looks at the start, so that there is something to compare with.
const INITIAL_SAMPLES: usize = 5;

/// The loop's times so far.
#[derive(Debug)]
pub(crate) struct NoiseProbe {
    steps: u64,
    best: Duration,
}

impl NoiseProbe {
    /// A loop of so many steps, each of which waits for the one before.
    pub(crate) fn new(steps: u64) -> Self {
        let best = (0..INITIAL_SAMPLES).map(|_| time(steps)).min();
        Self { steps, best: best.expect("there are some") }
    }

    /// How much slower the machine is now than it was at its best: 1 is best.
    pub(crate) fn slowdown(&mut self) -> f64 {
        self.compare(time(self.steps))
    }

    fn compare(&mut self, time: Duration) -> f64 {
        self.best = self.best.min(time);
        time.as_secs_f64() / self.best.as_secs_f64().max(1e-9)
    }
}

/// Whether this is more than a calm machine's.
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
    fn against_the_best_so_far() {
        let ms = Duration::from_millis;
        let mut probe = NoiseProbe { steps: 1, best: ms(16) };
        assert_eq!([ms(20), ms(10), ms(15)].map(|time| probe.compare(time)), [1.25, 1.0, 1.5]);
        assert!(is_noisy(1.5) && !is_noisy(1.0));
    }
}
