//! Time limits for sending a response.
//!
//! Each block of a response has a time limit; a longer write has the sum of its blocks' limits. On a stream of HTTP/2 or
//! HTTP/3, which shares its connection with others, each [`STEP_BYTES`] have the limit of a block instead. If a minimum
//! rate is configured, the response as a whole also has a limit: the bytes sent divided by the rate, plus a
//! grace period. Only time spent waiting for the client counts, not time spent reading from disk.

use std::time::Duration;

use phalanx::net::IoTimeout;

use crate::config::Timeouts;
use crate::files::blocks::BLOCK;

/// Time by which a client may fall behind the minimum rate.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes of a stream that have the time limit of a block. They count even if the client opens its window byte by byte,
/// so that it cannot restart the limit with each byte.
const STEP_BYTES: u64 = 8 * 1024;

/// Send progress of one response.
pub(crate) struct Pace {
    block_limit: Duration,
    /// Minimum rate in bytes per second; zero for none.
    rate: u64,
    /// Bytes sent since the last reset, and the time that took.
    sent: u64,
    spent: Duration,
}

/// Progress of a stream within [`STEP_BYTES`].
#[derive(Default)]
pub(crate) struct Step {
    sent: u64,
    waited: Duration,
}

impl Step {
    /// Records that `bytes` were sent after waiting.
    pub(crate) fn record(&mut self, bytes: u64, waited: Duration) {
        self.sent += bytes;
        self.waited += waited;
        if self.sent >= STEP_BYTES {
            *self = Self::default();
        }
    }
}

impl Pace {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        let rate = timeouts.min_send_rate.unwrap_or(0);
        Self { block_limit: timeouts.send, rate, sent: 0, spent: Duration::ZERO }
    }

    /// Keeps the progress.
    pub(crate) fn set_timeouts(&mut self, timeouts: &Timeouts) {
        let Self { sent, spent, .. } = *self;
        *self = Self { sent, spent, ..Self::new(timeouts) };
    }

    /// Time limit for sending the next `bytes`.
    pub(crate) fn timeout(&self, bytes: u64) -> IoTimeout {
        let blocks = u32::try_from(bytes / BLOCK).unwrap_or(u32::MAX).max(1);
        IoTimeout::after(self.within_rate(self.block_limit.saturating_mul(blocks), bytes))
    }

    /// Time that a stream may wait for its client before the next of `bytes` are sent.
    pub(crate) fn stream_timeout(&self, step: &Step, bytes: u64) -> Duration {
        self.within_rate(self.block_limit.saturating_sub(step.waited), bytes)
    }

    /// The shorter of `limit` and the time that is left for `bytes` at the minimum rate.
    fn within_rate(&self, limit: Duration, bytes: u64) -> Duration {
        if self.rate == 0 {
            return limit;
        }
        let due = Duration::from_millis((self.sent + bytes).saturating_mul(1000) / self.rate);
        limit.min((GRACE + due).saturating_sub(self.spent))
    }

    /// Records that `bytes` were sent in `spent`.
    pub(crate) fn record(&mut self, bytes: u64, spent: Duration) {
        self.sent += bytes;
        self.spent += spent;
    }

    /// Resets the progress: the minimum rate applies to each response separately.
    pub(crate) fn reset(&mut self) {
        (self.sent, self.spent) = (0, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: Option<u64>) -> Pace {
        let send = Duration::from_secs(30);
        Pace::new(&Timeouts { send, min_send_rate: rate, ..Timeouts::default() })
    }

    #[test]
    fn the_minimum_rate_is_an_average() {
        let seconds = |seconds| IoTimeout::after(Duration::from_secs(seconds));
        assert_eq!(pace(None).timeout(2 * BLOCK - 1), seconds(30));
        assert_eq!(pace(None).timeout(8 * BLOCK + 300), seconds(240), "eight blocks");
        let mut pace = pace(Some(1000));
        assert_eq!(pace.timeout(2000), seconds(7), "two seconds at the rate, and five of grace");
        assert_eq!(pace.timeout(BLOCK), seconds(30), "at most the limit of a block");
        pace.record(10_000, Duration::from_secs(1));
        assert_eq!(pace.timeout(2000), seconds(5 + 12 - 1));
        pace.record(2_000, Duration::from_secs(16));
        assert_eq!(pace.timeout(1000), seconds(5 + 13 - 17));
        pace.record(1000, Duration::from_secs(9));
        assert_eq!(pace.timeout(1000), seconds(0), "its time is up");
        pace.reset();
        assert_eq!(pace.timeout(2000), seconds(7));
        pace.record(2_000, Duration::from_secs(1));
        pace.set_timeouts(&Timeouts { min_send_rate: Some(500), ..Timeouts::default() });
        assert_eq!(pace.timeout(2000), seconds(5 + 8 - 1), "with the progress so far");
    }

    /// A client that opens the window of a stream byte by byte.
    #[test]
    fn bytes_of_a_stream_have_one_limit() {
        let seconds = Duration::from_secs;
        let (mut pace, mut step) = (pace(None), Step::default());
        for second in 0..3 {
            assert_eq!(pace.stream_timeout(&step, 5000), seconds(30 - 9 * second));
            step.record(1, seconds(9));
        }
        step.record(STEP_BYTES - 4, seconds(2));
        assert_eq!(pace.stream_timeout(&step, 5000), seconds(1));
        step.record(1, Duration::ZERO);
        assert_eq!(pace.stream_timeout(&step, 5000), seconds(30), "the next step");
        pace = self::pace(Some(1000));
        pace.record(1, seconds(6));
        assert_eq!(pace.stream_timeout(&step, 4999), seconds(4), "the rest of the time for all");
    }
}
