//! Failed logins and the resulting lockouts, in a table of bounded size.

use std::collections::HashMap;
use std::time::Duration;

/// Failures after which a subject is locked out for [`FIRST_LOCKOUT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threshold(pub(crate) u32);

/// First lockout. Each further failure doubles it.
pub(crate) const FIRST_LOCKOUT: Duration = Duration::from_secs(1);

/// Longest lockout.
pub(crate) const MAX_LOCKOUT: Duration = Duration::from_secs(60);

/// Time after the last failure at which the count of failures is reset.
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Counted subjects. Above this, those with the fewest failures are evicted first.
const CAPACITY: usize = 8192;

/// Failures by subject; the key is a hash.
#[derive(Debug, Default)]
pub(crate) struct Failures(HashMap<u64, FailureCount>);

#[derive(Clone, Copy, Debug)]
struct FailureCount {
    failures: u32,
    last: Duration,
}

impl FailureCount {
    fn is_forgotten(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= FORGOTTEN_AFTER
    }
}

impl Failures {
    fn get(&self, key: u64, now: Duration) -> Option<FailureCount> {
        self.0.get(&key).copied().filter(|counted| !counted.is_forgotten(now))
    }

    pub(crate) fn has_failed(&self, key: u64, now: Duration) -> bool {
        self.get(key, now).is_some()
    }

    /// The rest of a lockout; `None` without one.
    pub(crate) fn lockout(
        &self,
        key: u64,
        threshold: Threshold,
        now: Duration,
    ) -> Option<Duration> {
        let FailureCount { failures, last } = self.get(key, now)?;
        let excess = failures.checked_sub(threshold.0)?;
        let lockout = FIRST_LOCKOUT.saturating_mul(1 << excess.min(16)).min(MAX_LOCKOUT);
        (last + lockout).checked_sub(now).filter(|remaining| !remaining.is_zero())
    }

    pub(crate) fn record(&mut self, key: u64, now: Duration) {
        if self.0.len() >= CAPACITY && !self.0.contains_key(&key) {
            self.0.retain(|_, counted| !counted.is_forgotten(now));
            let least_failed =
                self.0.iter().min_by_key(|(_, counted)| (counted.failures, counted.last));
            if let Some(least_failed) =
                least_failed.map(|(key, _)| *key).filter(|_| self.0.len() >= CAPACITY)
            {
                self.0.remove(&least_failed);
            }
        }
        let counted = self.0.entry(key).or_insert(FailureCount { failures: 0, last: now });
        if counted.is_forgotten(now) {
            counted.failures = 0;
        }
        *counted = FailureCount {
            failures: counted.failures.saturating_add(1),
            last: now.max(counted.last),
        };
    }

    pub(crate) fn clear(&mut self, key: u64) {
        self.0.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lockout_doubles_and_is_forgotten() {
        let (mut failures, threshold) = (Failures::default(), Threshold(3));
        let remaining = |failures: &Failures, now| failures.lockout(7, threshold, at(now));
        let is_out = |failures: &Failures, now| remaining(failures, now).is_some();
        for _ in 0..2 {
            failures.record(7, at(10));
        }
        assert!(!is_out(&failures, 10) && failures.has_failed(7, at(10)));
        failures.record(7, at(10));
        assert!(is_out(&failures, 10) && !is_out(&failures, 11), "one second");
        failures.record(7, at(20));
        assert!(is_out(&failures, 21) && !is_out(&failures, 22), "two");
        for _ in 0..40 {
            failures.record(7, at(30));
        }
        assert!(is_out(&failures, 89) && !is_out(&failures, 90), "a minute at most");
        assert_eq!(remaining(&failures, 70), Some(at(20)));
        assert_eq!(failures.lockout(8, threshold, at(30)), None, "another is another");
        assert!(!failures.has_failed(7, at(630)));
        failures.record(7, at(700));
        assert!(!is_out(&failures, 700), "it begins anew");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut failures = Failures::default();
        (0..3).for_each(|_| failures.record(1, at(1)));
        for key in 2..CAPACITY as u64 + 200 {
            failures.record(key, at(2));
        }
        assert_eq!(failures.0.len(), CAPACITY);
        assert!(
            failures.lockout(1, Threshold(3), at(1)).is_some(),
            "the subjects with the most failures stay"
        );
    }
}
