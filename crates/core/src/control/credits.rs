//! The law of admission: how many operations may be in flight, from how long work waits.
//!
//! Breakwater's form (Cho et al., OSDI 2020): while the wait is below its target, credits grow;
//! above it they shrink in proportion to the excess, by half at most. Some things are ours. Without
//! congestion there is no limit at all, and one interval of it is not congestion yet: a machine that
//! was held up for a moment has a queue too. A limit is judged only while it is kept: what was let
//! in before it makes its waits, however low it is, and a law that went on shrinking would let
//! nobody in when that is done. Growth is the larger the shorter the wait, so that a limit that was
//! too low is so for some intervals only. And a part of what could be done is done, whatever it
//! costs: where refusing takes as long as serving, waits do not become shorter by refusing, and a
//! law without that would end by refusing everybody.
//!
//! No clock, no randomness: told when an interval is over, it says how many.

/// Intervals in a row above the target before there is a limit.
const INTERVALS_BEFORE_CUT: u32 = 3;
/// Intervals in a row below the target and without a refusal before there is none any more: a
/// moment in which little came is not the end of an overload.
const INTERVALS_BEFORE_LIFTING: u32 = 10;
/// The part of the most that was served in this overload below which no limit is set. It must leave
/// room for what refusing costs, and for a machine that has become slower since.
const MIN_CAPACITY_SHARE: f64 = 0.25;
/// What is served is averaged over about so many intervals: requests of several passes come to their
/// ends together, and in one interval several times as many as can be served.
const SMOOTHING_INTERVALS: f64 = 10.0;
/// How much of the relative excess is taken off, and the most that is. Waits are about as long as
/// what is in flight, so below one it settles without swinging.
const SHRINK_FACTOR: f64 = 0.5;
/// By how much credits grow, as a part of them, where nothing waits at all.
const MAX_GROWTH: f64 = 0.25;

/// Credits of one entry on one processor.
pub(crate) struct Credits {
    /// In nanoseconds.
    target: f64,
    /// Infinite when there is none.
    limit: f64,
    in_flight: u32,
    /// How many were when this interval began, and the most since.
    began_with: u32,
    peak: u32,
    admitted: u64,
    refused: u64,
    /// Intervals in a row that were above the target.
    above: u32,
    /// Intervals in a row that were below it and refused nobody.
    calm: u32,
    /// What is served, per nanosecond, and what was in flight meanwhile, both on average.
    rate: f64,
    held: f64,
    /// The largest rate above the target.
    capacity: f64,
}

impl Credits {
    pub(crate) fn new(target: u64) -> Self {
        Self {
            target: target.max(1) as f64,
            limit: f64::INFINITY,
            in_flight: 0,
            began_with: 0,
            peak: 0,
            admitted: 0,
            refused: 0,
            above: 0,
            calm: 0,
            rate: 0.0,
            held: 0.0,
            capacity: 0.0,
        }
    }

    /// Takes a credit, if there is one.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        if f64::from(self.in_flight) >= self.limit {
            self.refused += 1;
            return false;
        }
        self.admitted += 1;
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        true
    }

    /// Gives one back.
    #[inline]
    pub(crate) fn give(&mut self) {
        self.in_flight -= 1;
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The most that may be in flight; none without a limit.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit.is_finite().then(|| self.limit.ceil() as u32)
    }

    /// An interval of `length` is over in which the wait was `wait`, both in nanoseconds.
    pub(crate) fn interval_over(&mut self, wait: u64, length: u64) {
        let (wait, peak) = (wait as f64, f64::from(self.peak.max(1)));
        let served = u64::from(self.began_with) + self.admitted - u64::from(self.in_flight);
        self.rate += (served as f64 / length.max(1) as f64 - self.rate) / SMOOTHING_INTERVALS;
        self.held += (peak - self.held) / SMOOTHING_INTERVALS;
        let excess = (wait - self.target) / self.target;
        let is_kept = peak <= self.limit.ceil();
        let is_calm = excess <= 0.0 && self.refused == 0;
        self.above = if excess > 0.0 { self.above + 1 } else { 0 };
        self.calm = if is_calm { self.calm + 1 } else { 0 };
        let is_new = self.limit.is_infinite() && self.above <= 1;
        self.capacity = if is_new { self.rate } else { self.capacity.max(self.rate) };
        if self.limit.is_infinite() {
            // Waits are as long as what is in flight: this many are wanted, at a first guess.
            if self.above >= INTERVALS_BEFORE_CUT {
                self.limit = peak * (self.target / wait).max(MIN_CAPACITY_SHARE);
            }
        } else if self.calm >= INTERVALS_BEFORE_LIFTING {
            self.limit = f64::INFINITY;
        } else if excess <= 0.0 {
            self.grow(-excess);
        } else if is_kept {
            let shrunk = self.limit * (1.0 - (SHRINK_FACTOR * excess).min(SHRINK_FACTOR));
            self.limit = shrunk.max(self.floor().min(self.limit)).max(1.0);
        }
        (self.admitted, self.refused) = (0, 0);
        (self.began_with, self.peak) = (self.in_flight, self.in_flight);
    }

    /// As many as it takes to serve the least part of the capacity, if they stay for as long as those
    /// do that are in flight (Little's law).
    fn floor(&self) -> f64 {
        MIN_CAPACITY_SHARE * self.capacity * self.held / self.rate.max(f64::MIN_POSITIVE)
    }

    fn grow(&mut self, part: f64) {
        self.limit += (self.limit * MAX_GROWTH * part).max(1.0);
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
