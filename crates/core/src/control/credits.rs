//! Admission control: the number of operations that may be in flight, as a function of the queue delay.
//!
//! The law follows Breakwater (Cho et al., OSDI 2020): while the delay is below its target, credits
//! grow; above it, they shrink in proportion to the excess, at most by half. It differs from Breakwater
//! in five ways.
//!
//! - Without congestion there is no limit. A single congested interval does not set one, because a momentary stall of
//!   the machine also causes a queue.
//! - The limit shrinks only while in-flight ≤ limit. Operations admitted earlier still inflate the
//!   measured delay, and a limit that kept shrinking would admit nothing once they are done.
//! - The shorter the delay, the faster credits grow, so a limit that is too low recovers within a few intervals.
//! - A minimum share of the capacity is always admitted. If a rejection costs as much as the service, rejecting does
//!   not shorten the delay, and the limit would otherwise fall to zero.
//! - Operations that are older than [`MAX_AGE`] intervals do not count. They are responses to slow clients, and their
//!   number says nothing about the work of this processor.
//!
//! The law uses no clock and no randomness: the caller reports the end of each interval.

/// The number of consecutive intervals above the target before a limit is set.
const INTERVALS_BEFORE_CUT: u32 = 3;
/// The time below the target and without a rejection, in nanoseconds, before the limit is lifted. A short
/// lull does not end an overload. Time without requests counts, because it ends no interval.
const CALM_BEFORE_LIFTING: u64 = 100_000_000;
/// The limit never falls below this share of the highest throughput during the current overload. The rest is a margin
/// for the cost of rejections and for a machine that has slowed down in the meantime.
const MIN_CAPACITY_SHARE: f64 = 0.25;
/// The number of intervals over which throughput is averaged. Requests that take several passes
/// complete together, so a single interval may count several times the capacity.
const SMOOTHING_INTERVALS: f64 = 10.0;
/// The share of the relative excess that one step removes, which is also the largest reduction. Delay
/// is roughly proportional to the operations in flight, so a factor below one converges without
/// oscillating.
const SHRINK_FACTOR: f64 = 0.5;
/// The number of intervals after which an operation in flight no longer counts. An operation that takes longer waits
/// for its client and not for this processor, because even an overloaded server completes its own work earlier.
const MAX_AGE: usize = 16;
/// The relative growth of credits per interval when the delay is zero.
const MAX_GROWTH: f64 = 0.25;

/// The credits of one admission on one processor.
pub(crate) struct Credits {
    /// The target delay, in nanoseconds.
    target: f64,
    /// The limit; infinite if there is none.
    limit: f64,
    in_flight: u32,
    /// The number of completed intervals.
    intervals: u64,
    /// The number of operations in flight that began in each of the last [`MAX_AGE`] intervals, and their sum, to which
    /// the limit applies.
    recent: [u32; MAX_AGE],
    limited: u32,
    /// The operations in flight when this interval began, and the peak of the counted operations since then.
    initial_in_flight: u32,
    peak: u32,
    admitted: u64,
    rejected: u64,
    /// Consecutive intervals above the target.
    above: u32,
    /// The time below the target without a rejection, in nanoseconds.
    uncongested_time: u64,
    /// Moving averages of the throughput per nanosecond, and of the operations in flight.
    rate: f64,
    mean_in_flight: f64,
    /// The highest throughput measured above the target.
    capacity: f64,
}

impl Credits {
    pub(crate) fn new(target: u64) -> Self {
        Self {
            target: target.max(1) as f64,
            limit: f64::INFINITY,
            in_flight: 0,
            intervals: 0,
            recent: [0; MAX_AGE],
            limited: 0,
            initial_in_flight: 0,
            peak: 0,
            admitted: 0,
            rejected: 0,
            above: 0,
            uncongested_time: 0,
            rate: 0.0,
            mean_in_flight: 0.0,
            capacity: 0.0,
        }
    }

    /// Takes a credit. Returns the current interval; `None` if no credit is left.
    #[inline]
    pub(crate) fn acquire(&mut self) -> Option<u64> {
        if f64::from(self.limited) >= self.limit {
            self.rejected += 1;
            return None;
        }
        self.admitted += 1;
        self.in_flight += 1;
        self.limited += 1;
        self.recent[place(self.intervals)] += 1;
        self.peak = self.peak.max(self.limited);
        Some(self.intervals)
    }

    /// Gives a credit of this interval back.
    #[inline]
    pub(crate) fn release(&mut self, interval: u64) {
        self.in_flight -= 1;
        if self.intervals - interval < MAX_AGE as u64 {
            self.limited -= 1;
            self.recent[place(interval)] -= 1;
        }
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The maximum number of operations in flight; `None` if there is no limit.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit.is_finite().then(|| self.limit.ceil() as u32)
    }

    /// Ends an interval of `length` nanoseconds whose queue delay was `wait` nanoseconds.
    pub(crate) fn interval_over(&mut self, wait: u64, length: u64) {
        let (wait, peak) = (wait as f64, f64::from(self.peak.max(1)));
        let served = u64::from(self.initial_in_flight) + self.admitted - u64::from(self.in_flight);
        self.rate += (served as f64 / length.max(1) as f64 - self.rate) / SMOOTHING_INTERVALS;
        self.mean_in_flight += (peak - self.mean_in_flight) / SMOOTHING_INTERVALS;
        let excess = (wait - self.target) / self.target;
        let is_kept = peak <= self.limit.ceil();
        // A rejection in a long interval happened at its beginning, because the interval ended with the next request.
        let is_calm = excess <= 0.0 && (self.rejected == 0 || length >= CALM_BEFORE_LIFTING);
        self.above = if excess > 0.0 { self.above + 1 } else { 0 };
        self.uncongested_time =
            if is_calm { self.uncongested_time.saturating_add(length) } else { 0 };
        let is_new = self.limit.is_infinite() && self.above <= 1;
        self.capacity = if is_new { self.rate } else { self.capacity.max(self.rate) };
        if self.limit.is_infinite() {
            // Delay is proportional to the operations in flight, so this is a first estimate of the
            // limit.
            if self.above >= INTERVALS_BEFORE_CUT {
                self.limit = peak * (self.target / wait).max(MIN_CAPACITY_SHARE);
            }
        } else if self.uncongested_time >= CALM_BEFORE_LIFTING {
            self.limit = f64::INFINITY;
        } else if excess <= 0.0 {
            self.grow(-excess);
        } else if is_kept {
            let reduced = self.limit * (1.0 - (SHRINK_FACTOR * excess).min(SHRINK_FACTOR));
            self.limit = reduced.max(self.floor().min(self.limit)).max(1.0);
        }
        (self.admitted, self.rejected) = (0, 0);
        self.intervals += 1;
        self.limited -= std::mem::take(&mut self.recent[place(self.intervals)]);
        (self.initial_in_flight, self.peak) = (self.in_flight, self.limited);
    }

    /// The lowest limit: enough to serve the minimum share of the capacity at the current residence
    /// time (Little's law).
    fn floor(&self) -> f64 {
        MIN_CAPACITY_SHARE * self.capacity * self.mean_in_flight / self.rate.max(f64::MIN_POSITIVE)
    }

    fn grow(&mut self, part: f64) {
        self.limit += (self.limit * MAX_GROWTH * part).max(1.0);
    }
}

/// The index of an interval among the recent ones.
#[inline]
fn place(interval: u64) -> usize {
    (interval % MAX_AGE as u64) as usize
}

#[cfg(all(test, not(loom)))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
