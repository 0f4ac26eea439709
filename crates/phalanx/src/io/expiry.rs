//! Cancelling requests whose time limit has passed, and requests that end at shutdown.

use std::io;
use std::time::Duration;

use phalanx_core::wake_catching_panics;

use super::drained::Drained;
use super::{Entry, Io, State};

/// A request expires at most this long after its limit has passed.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// The minimum time between two scans for expired requests, per request for which the table has space. It prevents
/// short limits of some requests from causing many scans of a large table. Scanning takes about 10 ns per request, so
/// scans take at most 1 % of the time.
const PAUSE_PER_REQUEST: Duration = Duration::from_micros(1);

/// The reason why this table cancelled a request.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    Expired,
    Drained,
}

impl From<Cause> for io::Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Expired => io::ErrorKind::TimedOut.into(),
            Cause::Drained => Drained.into(),
        }
    }
}

/// The minimum time to the next scan of a table with space for this number of requests.
fn pause(requests: usize) -> Duration {
    let requests = u32::try_from(requests).unwrap_or(u32::MAX);
    PAUSE_PER_REQUEST.saturating_mul(requests).min(SCAN_INTERVAL)
}

impl Io {
    /// The time at which to call [`Io::expire`] next, if any request has a time limit.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        let earliest = Some(self.earliest.get()).filter(|earliest| *earliest != Duration::MAX)?;
        Some(earliest.max(self.next_scan.get()))
    }

    /// Cancels requests whose time limit has passed.
    pub(crate) fn expire(&self, now: Duration) {
        self.turn_began.set(now);
        if now < self.earliest.get().max(self.next_scan.get()) {
            return;
        }
        self.next_scan.set(now + pause(self.requests.borrow().capacity()));
        let mut earliest = Duration::MAX;
        self.cancel_each(Cause::Expired, |entry| {
            let expired = entry.expires <= now;
            if !expired {
                earliest = earliest.min(entry.expires);
            }
            expired
        });
        let next =
            if earliest == Duration::MAX { earliest } else { earliest.max(now + SCAN_INTERVAL) };
        self.earliest.set(next);
    }

    /// Announces that the program drains: wakes the operations that wait for it, and cancels the requests that end with
    /// it. Returns true the first time.
    pub(crate) fn announce_drain(&self) -> bool {
        if self.drain_announced.replace(true) {
            return false;
        }
        self.cancel_each(Cause::Drained, |entry| entry.ends_with_drain);
        let mut waiting = self.draining.take();
        waiting.drain().for_each(wake_catching_panics);
        true
    }

    fn cancel_each(&self, cause: Cause, mut predicate: impl FnMut(&Entry) -> bool) {
        let mut keys = Vec::new();
        for (key, entry) in &mut *self.requests.borrow_mut() {
            let is_active = matches!(entry.state, State::Waiting(_) | State::Finishing(_));
            if is_active && entry.cancelled.is_none() && predicate(entry) {
                entry.cancelled = Some(cause);
                keys.push(key);
            }
        }
        keys.into_iter().for_each(|key| self.cancel(key));
    }
}
