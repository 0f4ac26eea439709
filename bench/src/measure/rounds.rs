//! Rounds of a measurement; disturbed ones are repeated. A fixed loop, timed before and after a round, detects them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::measure::partial::Partial;
use crate::system::interrupt::is_interrupted;

/// Steps of the noise probe around a round: a few milliseconds.
const PROBE_STEPS: u64 = 2_000_000;

/// Results of the rounds.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) rounds: Vec<T>,
    /// Disturbed rounds among these, kept after as many repetitions as rounds.
    pub(crate) noisy: usize,
}

impl<T> Taken<T> {
    /// Progress, if there are fewer rounds than `count`.
    pub(crate) fn partial(&self, count: usize) -> Option<Partial> {
        let rounds = self.rounds.len();
        (rounds < count).then_some(Partial { rounds, of: count })
    }
}

/// Runs `count` rounds, and up to as many repetitions of disturbed ones. After a signal, if the command notices signals,
/// no round begins but the first.
pub(crate) fn take<T, E>(count: usize, round: impl FnMut() -> Result<T, E>) -> Result<Taken<T>, E> {
    let mut probe = NoiseProbe::new(PROBE_STEPS);
    take_by(count, round, || probe.slowdown(), is_interrupted)
}

/// [`take`] with the given measure of slowdown, and of the end.
fn take_by<T, E>(
    count: usize,
    mut round: impl FnMut() -> Result<T, E>,
    mut slowdown: impl FnMut() -> f64,
    ends: impl Fn() -> bool,
) -> Result<Taken<T>, E> {
    let (mut taken, mut again) = (Taken { rounds: Vec::with_capacity(count), noisy: 0 }, count);
    while taken.rounds.len() < count {
        if ends() && !taken.rounds.is_empty() {
            break;
        }
        let before = slowdown();
        let shown = round()?;
        let is_noisy = is_noisy(before.max(slowdown()));
        if is_noisy && again > 0 {
            again -= 1;
            continue;
        }
        taken.noisy += usize::from(is_noisy);
        taken.rounds.push(shown);
    }
    Ok(taken)
}

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
    use std::convert::Infallible;

    use super::*;

    fn taken(count: usize, slowdown: impl FnMut() -> f64) -> Taken<u32> {
        let mut next = 0..;
        let round = || Ok::<_, Infallible>(next.next().unwrap());
        let Ok(taken) = take_by(count, round, slowdown, || false);
        taken
    }

    #[test]
    fn disturbed_rounds_are_repeated() {
        // Before and after each round: the second and the fourth are disturbed.
        let mut slowdowns = [1.0, 1.1, 1.0, 1.5, 1.0, 1.0, 1.6, 1.0, 1.0, 1.0].into_iter();
        let calm = taken(3, || slowdowns.next().unwrap());
        assert_eq!((calm.rounds, calm.noisy), (vec![0, 2, 4], 0));
    }

    #[test]
    fn a_signal_ends_the_rounds_after_the_first() {
        let mut next = 0..;
        let round = || Ok::<_, Infallible>(next.next().unwrap());
        let Ok(taken) = take_by(3, round, || 1.0, || true);
        assert_eq!((&*taken.rounds, taken.partial(1)), (&[0][..], None));
        assert_eq!(taken.partial(3), Some(Partial { rounds: 1, of: 3 }));
    }

    #[test]
    fn rounds_of_a_noisy_machine_are_marked() {
        let noisy = taken(3, || 2.0);
        assert_eq!((noisy.rounds, noisy.noisy), (vec![3, 4, 5], 3));
    }

    #[test]
    fn slowdown_is_relative_to_the_best_time() {
        let ms = Duration::from_millis;
        let mut probe = NoiseProbe { steps: 1, best: ms(16) };
        assert_eq!([ms(20), ms(10), ms(15)].map(|time| probe.compare(time)), [1.25, 1.0, 1.5]);
        assert!(is_noisy(1.5) && !is_noisy(1.0));
    }
}
