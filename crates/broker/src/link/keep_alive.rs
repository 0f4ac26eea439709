//! The keep-alive of a link: when to ping, and when the remote broker is gone.

use std::cell::Cell;
use std::io;
use std::time::Duration;

/// The state of the keep-alive, on the runtime's clock.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// Time between two pings; `None` without a keep-alive.
    interval: Option<Duration>,
    next: Cell<Duration>,
    /// Whether a ping was sent and nothing was received since.
    is_waiting: Cell<bool>,
}

impl KeepAlive {
    /// Creates the state for a keep-alive of `seconds`; 0 for none.
    pub(super) fn new(seconds: u16, now: Duration) -> Self {
        // Pings after three quarters of the keep-alive, because the sender may be busy.
        let interval = (seconds > 0).then(|| Duration::from_millis(750 * u64::from(seconds)));
        let next = Cell::new(now + interval.unwrap_or_default());
        Self { interval, next, is_waiting: Cell::new(false) }
    }

    /// Records that data were received.
    pub(super) fn heard(&self) {
        self.is_waiting.set(false);
    }

    /// Whether to send a ping at `now`. If so, the ping counts as sent.
    ///
    /// # Errors
    /// `TimedOut` if nothing was received since the last ping.
    pub(super) fn is_due(&self, now: Duration) -> io::Result<bool> {
        let Some(interval) = self.interval.filter(|_| now >= self.next.get()) else {
            return Ok(false);
        };
        if self.is_waiting.replace(true) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.next.set(now + interval);
        Ok(true)
    }

    /// Time until [`is_due`](Self::is_due); `None` without a keep-alive.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.interval.map(|_| self.next.get().saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_remote_broker_is_gone_after_two_intervals() {
        let at = Duration::from_millis;
        let own = KeepAlive::new(4, at(0));
        assert_eq!((own.left(at(1000)), own.is_due(at(2999)).unwrap()), (Some(at(2000)), false));
        assert!(own.is_due(at(3000)).unwrap());
        assert!(!own.is_due(at(3001)).unwrap());
        own.heard();
        assert!(own.is_due(at(6000)).unwrap());
        assert_eq!(own.is_due(at(9000)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let none = KeepAlive::new(0, at(0));
        assert_eq!((none.left(at(5)), none.is_due(at(1 << 40)).unwrap()), (None, false));
    }
}
