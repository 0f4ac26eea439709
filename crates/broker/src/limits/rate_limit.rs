//! Publish rate limit of a client: the broker stops reading from it while it exceeds its rate.

use std::time::Duration;

/// The burst allowed after a pause, as time at the client's rate.
const BURST: Duration = Duration::from_secs(1);

/// Generic cell rate algorithm: the theoretical arrival time of the next message.
pub(crate) struct RateLimit {
    /// At the full rate.
    interval: Duration,
    next_arrival: Duration,
}

impl RateLimit {
    /// A limit of `rate` messages per second.
    pub(crate) fn new(rate: u32) -> Self {
        Self { interval: Duration::from_secs(1) / rate.max(1), next_arrival: Duration::ZERO }
    }

    /// Accounts for `messages` published at `now`.
    pub(crate) fn record(&mut self, messages: usize, now: Duration) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.next_arrival =
            self.next_arrival.max(now).saturating_add(self.interval.saturating_mul(messages));
    }

    /// Time to wait before reading more.
    pub(crate) fn wait(&self, now: Duration) -> Duration {
        self.next_arrival.saturating_sub(now.saturating_add(BURST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn one_second_of_burst_then_the_rate() {
        let mut rate_limit = RateLimit::new(10);
        assert_eq!(rate_limit.wait(at(5000)), at(0));
        rate_limit.record(10, at(5000));
        assert_eq!(rate_limit.wait(at(5000)), at(0));
        rate_limit.record(3, at(5000));
        assert_eq!((rate_limit.wait(at(5000)), rate_limit.wait(at(5100))), (at(300), at(200)));
        // A pause accumulates at most one second.
        rate_limit.record(11, at(60_000));
        assert_eq!(rate_limit.wait(at(60_000)), at(100));
    }
}
