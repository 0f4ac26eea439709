//! How often a client publishes: no more of it is read while it is ahead of its rate.

use std::time::Duration;

/// So long a client may have been silent for, to say that much at once.
const BURST: Duration = Duration::from_secs(1);

/// One client's rate, as the moment at which what it has published will be paid for (the generic cell rate
/// algorithm).
pub(super) struct RateLimit {
    /// What a message costs.
    cost: Duration,
    paid: Duration,
}

impl RateLimit {
    /// Messages in a second.
    pub(super) fn new(rate: u32) -> Self {
        Self { cost: Duration::from_secs(1) / rate.max(1), paid: Duration::ZERO }
    }

    /// So many were published.
    pub(super) fn published(&mut self, messages: usize, now: Duration) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.paid = self.paid.max(now).saturating_add(self.cost.saturating_mul(messages));
    }

    /// How long nothing more is to be read.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        self.paid.saturating_sub(now.saturating_add(BURST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_second_at_once_and_then_the_rate() {
        let mut rate_limit = RateLimit::new(10);
        assert_eq!(rate_limit.wait(at(5000)), at(0));
        rate_limit.published(10, at(5000));
        assert_eq!(rate_limit.wait(at(5000)), at(0));
        rate_limit.published(3, at(5000));
        assert_eq!((rate_limit.wait(at(5000)), rate_limit.wait(at(5100))), (at(300), at(200)));
        // A rest makes good for no more than a second.
        rate_limit.published(11, at(60_000));
        assert_eq!(rate_limit.wait(at(60_000)), at(100));
    }
}
