//! Whether a processor that has nothing to do looks again for a moment before it sleeps.
//!
//! To sleep and be woken takes some microseconds and makes who comes wait for them; to look again takes all the
//! time that nobody comes. So it is worth it where somebody mostly comes within the moment, and for nothing where
//! it is always later. Which of both it is shows by when somebody came the last times, slept or not, as a branch predictor
//! goes by its last branches: a processor at light load stops looking, and begins again when the load grows. To be
//! woken takes time, so who wakes a sleeper seems to come later than it did: now and then the processor looks, to find out.

/// Somebody who came within the moment counts so much more than one who came later: their answers were earlier for it.
const IN_TIME: u8 = 3;
/// As many that came later end the looking, when before all came in time.
const MOST: u8 = 16;
/// Of so many times one is to find out. A prime, since what comes may take turns: a client always later, its file always soon.
const TRIES: u8 = 31;

/// How a processor has been found idle lately.
pub(crate) struct Spinning {
    /// Nanoseconds to look for at most.
    moment: u64,
    /// Above zero it is worth it.
    score: u8,
    /// How many have come since it was last tried.
    untried: u8,
}

impl Spinning {
    /// Looks for `moment` nanoseconds at most; hopeful at first.
    pub(crate) fn new(moment: u64) -> Self {
        Self { moment, score: MOST, untried: 0 }
    }

    /// Nanoseconds for which to look before sleeping.
    #[inline]
    pub(crate) fn moment(&self) -> u64 {
        if self.score > 0 || self.untried == TRIES - 1 { self.moment } else { 0 }
    }

    /// Work came when there had been none for `idle` nanoseconds.
    #[inline]
    pub(crate) fn came(&mut self, idle: u64) {
        self.untried = (self.untried + 1) % TRIES;
        self.score = match idle < self.moment {
            true => (self.score + IN_TIME).min(MOST),
            false => self.score.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long is looked after each of them has come.
    fn moments(idle: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut spinning = Spinning::new(20);
        let after = |idle| {
            spinning.came(idle);
            spinning.moment()
        };
        idle.into_iter().map(after).collect()
    }

    #[test]
    fn who_always_comes_later_is_not_looked_for() {
        let moments = moments([1000; 1000]);
        assert_eq!(moments[..15], [20; 15]);
        let looked = moments[16..].iter().filter(|moment| **moment > 0).count();
        assert_eq!(looked, 32, "to find out");
    }

    #[test]
    fn who_often_comes_in_time_is() {
        assert!(
            moments((0..1000).map(|n| if n % 3 == 0 { 10 } else { 1000 })).iter().all(|m| *m == 20)
        );
    }

    #[test]
    fn who_comes_in_time_again_is_looked_for_again() {
        let moments = moments([1000; 40].into_iter().chain([10]));
        assert_eq!((moments[39], moments[40]), (0, 20));
    }

    /// A client who comes late, and then its file, which comes in time but not where a sleeper has to be woken.
    #[test]
    fn who_comes_in_time_every_other_time_is_found() {
        let mut spinning = Spinning::new(20);
        for _ in 0..40 {
            spinning.came(1000);
        }
        for turn in 0..100 {
            let late = turn % 2 == 0;
            let idle = if late {
                1000
            } else if spinning.moment() > 0 {
                10
            } else {
                50
            };
            spinning.came(idle);
        }
        assert_eq!(spinning.moment(), 20);
        assert!(spinning.score > 0);
    }

    #[test]
    fn nobody_is_looked_for_without_a_moment() {
        let mut spinning = Spinning::new(0);
        spinning.came(0);
        assert_eq!(spinning.moment(), 0);
    }
}
