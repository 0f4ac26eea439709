//! Rounds of a measurement; disturbed ones are repeated.

use crate::measure::noise::{NoiseProbe, is_noisy};

/// Steps of the noise probe around a round: a few milliseconds.
const PROBE_STEPS: u64 = 2_000_000;

/// Results of the rounds.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) rounds: Vec<T>,
    /// Disturbed rounds among these, kept after as many repetitions as rounds.
    pub(crate) noisy: usize,
}

/// Runs `count` rounds, and up to as many repetitions of disturbed ones.
pub(crate) fn take<T, E>(count: usize, round: impl FnMut() -> Result<T, E>) -> Result<Taken<T>, E> {
    let mut probe = NoiseProbe::new(PROBE_STEPS);
    take_by(count, round, || probe.slowdown())
}

/// [`take`] with the given measure of slowdown.
fn take_by<T, E>(
    count: usize,
    mut round: impl FnMut() -> Result<T, E>,
    mut slowdown: impl FnMut() -> f64,
) -> Result<Taken<T>, E> {
    let (mut taken, mut again) = (Taken { rounds: Vec::with_capacity(count), noisy: 0 }, count);
    while taken.rounds.len() < count {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn taken(count: usize, slowdown: impl FnMut() -> f64) -> Taken<u32> {
        let mut next = 0..;
        let Ok(taken) = take_by(count, || Ok::<_, Infallible>(next.next().unwrap()), slowdown);
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
    fn rounds_of_a_noisy_machine_are_marked() {
        let noisy = taken(3, || 2.0);
        assert_eq!((noisy.rounds, noisy.noisy), (vec![3, 4, 5], 3));
    }
}
