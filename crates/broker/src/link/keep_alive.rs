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
    /// Whether nothing was received since the last ping.
    is_ping_outstanding: Cell<bool>,
}

impl KeepAlive {
    /// Creates the state for a keep-alive of `seconds`; 0 for none.
    pub(super) fn new(seconds: u16, now: Duration) -> Self {
        // Pings after three quarters of the keep-alive, because the sender may be busy.
        let interval = (seconds > 0).then(|| Duration::from_millis(750 * u64::from(seconds)));
        let next = Cell::new(now + interval.unwrap_or_default());
        Self { interval, next, is_ping_outstanding: Cell::new(false) }
    }

    pub(super) fn record_received(&self) {
        self.is_ping_outstanding.set(false);
    }

    /// Whether to send a ping at `now`. If so, the ping counts as sent.
    ///
    /// # Errors
    /// `TimedOut` if nothing was received since the last ping.
    pub(super) fn poll_ping(&self, now: Duration) -> io::Result<bool> {
        let Some(interval) = self.interval.filter(|_| now >= self.next.get()) else {
            return Ok(false);
        };
        if self.is_ping_outstanding.replace(true) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.next.set(now + interval);
        Ok(true)
    }

    /// Time until [`poll_ping`](Self::poll_ping); `None` without a keep-alive.
    pub(super) fn time_left(&self, now: Duration) -> Option<Duration> {
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
        assert_eq!(
            (own.time_left(at(1000)), own.poll_ping(at(2999)).unwrap()),
            (Some(at(2000)), false)
        );
        assert!(own.poll_ping(at(3000)).unwrap());
        assert!(!own.poll_ping(at(3001)).unwrap());
        own.record_received();
        assert!(own.poll_ping(at(6000)).unwrap());
        assert_eq!(own.poll_ping(at(9000)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let none = KeepAlive::new(0, at(0));
        assert_eq!((none.time_left(at(5)), none.poll_ping(at(1 << 40)).unwrap()), (None, false));
    }
}
