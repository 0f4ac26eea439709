//! Time limits for sending a response.
//!
//! Each block of a response has a time limit; a longer write has the sum of its blocks' limits. If a minimum
//! rate is configured, the response as a whole also has a limit: the bytes sent divided by the rate, plus a
//! grace period. Only time spent waiting for the client counts, not time spent reading from disk.

use std::time::Duration;

use phalanx::net::IoTimeout;

use crate::config::Timeouts;
use crate::files::blocks::BLOCK;

/// Time by which a client may fall behind the minimum rate.
const GRACE: Duration = Duration::from_secs(5);

/// Send progress of one response.
pub(crate) struct Pace {
    /// Time limit per block.
    piece: Duration,
    /// Minimum rate in bytes per second; zero for none.
    rate: u64,
    /// Bytes sent since the last reset, and the time that took.
    sent: u64,
    spent: Duration,
}

impl Pace {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        let rate = timeouts.min_send_rate.unwrap_or(0);
        Self { piece: timeouts.send, rate, sent: 0, spent: Duration::ZERO }
    }

    /// Applies other time limits. The progress stays.
    pub(crate) fn change(&mut self, timeouts: &Timeouts) {
        let Self { sent, spent, .. } = *self;
        *self = Self { sent, spent, ..Self::new(timeouts) };
    }

    /// Time limit for sending the next `bytes`.
    pub(crate) fn timeout(&self, bytes: u64) -> IoTimeout {
        let pieces = u32::try_from(bytes / BLOCK).unwrap_or(u32::MAX).max(1);
        let limit = self.piece.saturating_mul(pieces);
        if self.rate == 0 {
            return IoTimeout::after(limit);
        }
        let due = Duration::from_millis((self.sent + bytes).saturating_mul(1000) / self.rate);
        IoTimeout::after(limit.min((GRACE + due).saturating_sub(self.spent)))
    }

    /// Records that `bytes` were sent in `spent`.
    pub(crate) fn sent(&mut self, bytes: u64, spent: Duration) {
        self.sent += bytes;
        self.spent += spent;
    }

    /// Resets the progress: the minimum rate applies to each response separately.
    pub(crate) fn rest(&mut self) {
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
        pace.sent(10_000, Duration::from_secs(1));
        assert_eq!(pace.timeout(2000), seconds(5 + 12 - 1));
        pace.sent(2_000, Duration::from_secs(16));
        assert_eq!(pace.timeout(1000), seconds(5 + 13 - 17));
        pace.sent(1000, Duration::from_secs(9));
        assert_eq!(pace.timeout(1000), seconds(0), "its time is up");
        pace.rest();
        assert_eq!(pace.timeout(2000), seconds(7));
        pace.sent(2_000, Duration::from_secs(1));
        pace.change(&Timeouts { min_send_rate: Some(500), ..Timeouts::default() });
        assert_eq!(pace.timeout(2000), seconds(5 + 8 - 1), "with the progress so far");
    }
}
