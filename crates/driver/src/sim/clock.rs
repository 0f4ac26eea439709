//! Virtual time: a number that is advanced explicitly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The time of day at which worlds begin, since 1970.
const DAY: Duration = Duration::from_secs(1_800_000_000);

pub(crate) struct Clock {
    /// Nanoseconds since the beginning.
    pub(crate) now: u64,
    /// The time of day at the beginning.
    day: Duration,
    arrivals: BinaryHeap<Reverse<u64>>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { now: 0, day: DAY, arrivals: BinaryHeap::new() }
    }
}

impl Clock {
    /// Returns true if something has arrived by then.
    pub(super) fn advance_to(&mut self, time: u64) -> bool {
        self.now = self.now.max(time);
        let mut any = false;
        while self.arrivals.peek().is_some_and(|at| at.0 <= self.now) {
            self.arrivals.pop();
            any = true;
        }
        any
    }

    pub(super) fn next_arrival(&self) -> Option<u64> {
        self.arrivals.peek().map(|at| at.0)
    }

    pub(super) fn expect_after(&mut self, after: u64) -> u64 {
        let at = self.now + after;
        if after > 0 {
            self.arrivals.push(Reverse(at));
        }
        at
    }

    pub(super) fn time_of_day(&self) -> Duration {
        self.day + Duration::from_nanos(self.now)
    }

    pub(super) fn set_time_of_day(&mut self, time: Duration) {
        self.day = time.saturating_sub(Duration::from_nanos(self.now));
    }
}
