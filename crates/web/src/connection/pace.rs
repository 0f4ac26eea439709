//! How long a client may take for what it asked for.
//!
//! Each piece of an answer has a limit of its own, and what is sent at once but is as long as several has
//! that of several. Where a rate is asked for, all pieces of an answer
//! together have one too: what was sent, at that rate, and some seconds of grace. Only the time in
//! which the client was waited for counts; what the server's disk takes is not the client's fault.

use std::time::Duration;

use phalanx::net::IoTimeout;

use crate::config::Timeouts;
use crate::files::blocks::BLOCK;

/// A client may fall so far behind the least rate.
const GRACE: Duration = Duration::from_secs(5);

/// How a client takes an answer.
pub(crate) struct Pace {
    /// For each piece.
    piece: Duration,
    /// Bytes a second; zero for none.
    rate: u64,
    /// Sent since the last rest, in bytes, and the time that took.
    sent: u64,
    spent: Duration,
}

impl Pace {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        let rate = timeouts.min_send_rate.unwrap_or(0);
        Self { piece: timeouts.send, rate, sent: 0, spent: Duration::ZERO }
    }

    /// How long to wait for the next `bytes` to be taken.
    pub(crate) fn timeout(&self, bytes: u64) -> IoTimeout {
        let pieces = u32::try_from(bytes / BLOCK).unwrap_or(u32::MAX).max(1);
        let limit = self.piece.saturating_mul(pieces);
        if self.rate == 0 {
            return IoTimeout::after(limit);
        }
        let due = Duration::from_millis((self.sent + bytes).saturating_mul(1000) / self.rate);
        IoTimeout::after(limit.min((GRACE + due).saturating_sub(self.spent)))
    }

    /// They were taken in this time.
    pub(crate) fn sent(&mut self, bytes: u64, spent: Duration) {
        self.sent += bytes;
        self.spent += spent;
    }

    /// All is sent, and the next answer counts for itself: who was fast has no right to be slow.
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
    fn the_least_rate_is_an_average() {
        let seconds = |seconds| IoTimeout::after(Duration::from_secs(seconds));
        assert_eq!(pace(None).timeout(2 * BLOCK - 1), seconds(30));
        assert_eq!(pace(None).timeout(8 * BLOCK + 300), seconds(240), "as eight pieces");
        let mut pace = pace(Some(1000));
        assert_eq!(pace.timeout(2000), seconds(7), "two at the rate, and five of grace");
        assert_eq!(pace.timeout(BLOCK), seconds(30), "no more than for any piece");
        pace.sent(10_000, Duration::from_secs(1));
        assert_eq!(pace.timeout(2000), seconds(5 + 12 - 1));
        pace.sent(2_000, Duration::from_secs(16));
        assert_eq!(pace.timeout(1000), seconds(5 + 13 - 17));
        pace.sent(1000, Duration::from_secs(9));
        assert_eq!(pace.timeout(1000), seconds(0), "its time is up");
        pace.rest();
        assert_eq!(pace.timeout(2000), seconds(7));
    }
}
