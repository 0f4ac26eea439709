//! Measurements that can be interrupted and report their partial results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Progress of an interrupted measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Measured rounds of all settings.
    pub rounds: usize,
    /// Planned rounds.
    pub of: usize,
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

/// Transposes rounds that each visited the same servers into the rounds of each server.
pub(crate) fn by_server<T>(rounds: Vec<Vec<T>>) -> Vec<Vec<T>> {
    let mut servers: Vec<Vec<T>> = Vec::new();
    for round in rounds {
        servers.resize_with(round.len(), Vec::new);
        servers.iter_mut().zip(round).for_each(|(server, one)| server.push(one));
    }
    servers
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
    fn rounds_are_sorted_by_server() {
        assert_eq!(by_server(vec![vec![1, 2], vec![3, 4]]), [[1, 3], [2, 4]]);
    }
}
