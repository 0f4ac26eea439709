//! Measurements that can be interrupted and report their partial results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Progress of an interrupted measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Partial {
    /// Measured rounds of all settings.
    pub(crate) rounds: usize,
    /// Planned rounds.
    pub(crate) of: usize,
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted after {} of {} rounds", self.rounds, self.of)
    }
}

/// Measures `rounds` rounds, counted from 1, of each setting, one setting after another. Returns the results in
/// the order of the settings; after an interruption, of the settings with at least one complete round.
///
/// # Errors
/// The first error of a round; [`Error::Interrupted`] only if no round was complete.
pub(crate) fn measure_each<S, T>(
    settings: &[S],
    rounds: usize,
    mut round: impl FnMut(&S, usize) -> Result<T, Error>,
) -> Result<(Vec<Vec<T>>, Option<Partial>), Error> {
    let mut shown: Vec<Vec<T>> = Vec::new();
    let mut measured = 0;
    for setting in settings {
        for n in 1..=rounds {
            match round(setting, n) {
                Ok(one) if n == 1 => shown.push(vec![one]),
                Ok(one) => shown.last_mut().expect("a previous round").push(one),
                Err(Error::Interrupted) if measured > 0 => {
                    let partial = Partial { rounds: measured, of: rounds * settings.len() };
                    return Ok((shown, Some(partial)));
                }
                Err(error) => return Err(error),
            }
            measured += 1;
        }
    }
    Ok((shown, None))
}

/// [`measure_each`] with one round, after a measurement that is complete: an interruption keeps that one, even without a
/// result of these settings.
///
/// # Errors
/// The first error other than an interruption.
pub(crate) fn measure_more<S, T>(
    settings: &[S],
    mut measure: impl FnMut(&S) -> Result<T, Error>,
) -> Result<(Vec<T>, Option<Partial>), Error> {
    match measure_each(settings, 1, |setting, _| measure(setting)) {
        Err(Error::Interrupted) => {
            Ok((Vec::new(), Some(Partial { rounds: 0, of: settings.len() })))
        }
        measured => {
            measured.map(|(results, partial)| (results.into_iter().flatten().collect(), partial))
        }
    }
}

/// The rounds of each arm.
pub(crate) type Arms<T> = Vec<Vec<T>>;

/// Measures `rounds` rounds of each setting, in which each of `arms` has a turn. The order alternates. Returns the results
/// of each setting by arm, as [`measure_each`] does, and says on stderr which round begins.
///
/// # Errors
/// Like [`measure_each`].
pub(crate) fn measure_arms<S, T>(
    settings: &[S],
    title: impl Fn(&S) -> String,
    (arms, rounds): (usize, usize),
    mut turn: impl FnMut(&S, usize, usize) -> Result<T, Error>,
) -> Result<(Vec<Arms<T>>, Option<Partial>), Error> {
    let (measured, partial) = measure_each(settings, rounds, |setting, round| {
        eprintln!("{}, round {round} of {rounds}", title(setting));
        let is_backward = round.is_multiple_of(2);
        let order = (0..arms).map(|n| if is_backward { arms - 1 - n } else { n });
        let turns = order.map(|arm| turn(setting, arm, round));
        let mut turns = turns.collect::<Result<Vec<T>, Error>>()?;
        if is_backward {
            turns.reverse();
        }
        Ok(turns)
    })?;
    Ok((measured.into_iter().map(by_arm).collect(), partial))
}

/// [`measure_arms`] with one setting. Passes the complete rounds of each arm to `add`.
///
/// # Errors
/// Like [`measure_each`], and [`Error::Interrupted`] after `add` if rounds are missing.
pub(crate) fn measure_setting<T>(
    title: &str,
    turns: (usize, usize),
    mut turn: impl FnMut(usize, usize) -> Result<T, Error>,
    add: impl FnOnce(Arms<T>),
) -> Result<(), Error> {
    let (mut measured, partial) =
        measure_arms(&[()], |()| title.to_owned(), turns, |(), arm, round| turn(arm, round))?;
    add(measured.remove(0));
    partial.map_or(Ok(()), |_| Err(Error::Interrupted))
}

/// Transposes rounds, in which all arms had a turn, into the rounds of each arm.
pub(crate) fn by_arm<T>(rounds: Vec<Vec<T>>) -> Arms<T> {
    let mut arms: Arms<T> = Vec::new();
    for round in rounds {
        arms.resize_with(round.len(), Vec::new);
        arms.iter_mut().zip(round).for_each(|(arm, one)| arm.push(one));
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shown = (Vec<Vec<(char, usize)>>, Option<Partial>);

    /// Interrupted in the round with this number.
    fn interrupted_in(last: usize) -> Result<Shown, Error> {
        let mut begun = 0;
        measure_each(&['a', 'b'], 3, |setting, n| {
            begun += 1;
            if begun == last { Err(Error::Interrupted) } else { Ok((*setting, n)) }
        })
    }

    #[test]
    fn whole_rounds_are_kept() {
        let a = [('a', 1), ('a', 2), ('a', 3)].to_vec();
        let (shown, partial) = interrupted_in(5).unwrap();
        assert_eq!(shown, [a.clone(), vec![('b', 1)]]);
        assert_eq!(partial, Some(Partial { rounds: 4, of: 6 }));
        let (shown, partial) = interrupted_in(4).unwrap();
        assert_eq!(
            (shown, partial),
            (vec![a], Some(Partial { rounds: 3, of: 6 })),
            "no round of b"
        );
        let (shown, partial) = interrupted_in(7).unwrap();
        assert_eq!((shown.concat().len(), partial), (6, None));
    }

    #[test]
    fn without_a_whole_round_there_is_no_result() {
        assert!(matches!(interrupted_in(1), Err(Error::Interrupted)));
    }

    #[test]
    fn an_interruption_keeps_the_measurement_before() {
        let more = |last: char| {
            measure_more(&['a', 'b'], |setting| match *setting == last {
                true => Err(Error::Interrupted),
                false => Ok(*setting),
            })
        };
        let partial = |rounds| Some(Partial { rounds, of: 2 });
        assert_eq!(more('a').unwrap(), (vec![], partial(0)));
        assert_eq!(more('b').unwrap(), (vec!['a'], partial(1)));
        assert_eq!(more('c').unwrap(), (vec!['a', 'b'], None));
        let failed = measure_more(&['a'], |_| Err::<(), _>(Error::NoServers));
        assert!(matches!(failed, Err(Error::NoServers)));
    }

    #[test]
    fn arms_take_turns() {
        let mut order = Vec::new();
        let turn = |setting: &char, arm, round| {
            order.push(arm);
            Ok((*setting, arm, round))
        };
        let (measured, partial) = measure_arms(&['a'], char::to_string, (2, 3), turn).unwrap();
        assert_eq!((order, partial), (vec![0, 1, 1, 0, 0, 1], None));
        let of = |arm| (1..=3).map(|round| ('a', arm, round)).collect::<Vec<_>>();
        assert_eq!(measured, [[of(0), of(1)]]);
    }
}
