//! Delays between attempts to connect: exponential, with jitter.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// The delays between the attempts of one client, such as a bridge.
pub struct Backoff {
    min: Duration,
    max: Duration,
    /// Seed of the jitter, so that clients that lost their connections together do not reconnect together.
    seed: String,
    failures: u32,
}

impl Backoff {
    /// Delays from `min` to `max`. Clients with different seeds have different delays.
    pub fn new(min: Duration, max: Duration, seed: String) -> Self {
        Self { min, max, seed, failures: 0 }
    }

    /// Records the duration of a connection. After a long one, the delays start from the shortest again.
    pub fn record_connection(&mut self, duration: Duration) {
        if duration >= self.max {
            self.failures = 0;
        }
    }

    /// The delay at time `now`: between half of the nominal delay and all of it.
    pub fn next_delay(&mut self, now: Duration) -> Duration {
        let nominal = self.min.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let mut hasher = DefaultHasher::new();
        (&self.seed, self.failures, now).hash(&mut hasher);
        let part = hasher.finish() % 1024;
        nominal / 2 + nominal / 2 * part as u32 / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let at = Duration::from_secs;
        let mut backoff = Backoff::new(at(1), at(30), "a".into());
        for nominal in [1, 2, 4, 8, 16, 30, 30] {
            let delay = backoff.next_delay(at(7));
            assert!(delay >= at(nominal) / 2 && delay <= at(nominal), "{delay:?} of {nominal}");
        }
        backoff.record_connection(at(29));
        assert!(backoff.next_delay(at(7)) >= at(15));
        backoff.record_connection(at(30));
        assert!(backoff.next_delay(at(7)) <= at(1));
        let mut other = Backoff::new(at(1), at(30), "b".into());
        let mut one = Backoff::new(at(1), at(30), "a".into());
        assert_ne!(one.next_delay(at(7)), other.next_delay(at(7)));
    }
}
