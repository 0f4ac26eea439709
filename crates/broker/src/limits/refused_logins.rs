//! Refused logins: a counter, and at most one log line every ten seconds.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx::metrics::Counter;
use phalanx::runtime::report;
use phalanx::shutdown::draining;
use phalanx::time::now;
use phalanx::{SharedStage, select, sleep};
use phalanx_mqtt::Reason;

/// Interval between log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

const MAX_NAME_CHARACTERS: usize = 64;

/// The counter and the log's rate limit.
pub(crate) struct RefusedLogins {
    counter: Counter,
    unreported: Mutex<UnreportedRefusals>,
}

#[derive(Default)]
struct UnreportedRefusals {
    wrong: u64,
    locked_out: u64,
    busy: u64,
    /// The last user name and address.
    last: String,
    last_logged: Option<Duration>,
    /// Whether an operation waits to log the next line.
    is_scheduled: bool,
}

impl RefusedLogins {
    pub(crate) fn new(counter: Counter) -> Self {
        Self { counter, unreported: Mutex::default() }
    }

    /// Counts a refused login of this user and address, as far as known. The line is logged now, or later by an operation
    /// of `stage`.
    pub(crate) fn record(
        self: &Arc<Self>,
        reason: Reason,
        (name, address): (Option<&str>, Option<IpAddr>),
        stage: SharedStage<()>,
    ) {
        self.counter.add(1);
        match self.count(reason, (name, address), now()) {
            LogTiming::Now(line) => report(line),
            LogTiming::Later => {
                let own = self.clone();
                let _ = stage.dispatch(move |_| async move { own.log_later().await });
            }
            LogTiming::Scheduled => (),
        }
    }

    async fn log_later(&self) {
        select(sleep(LOG_INTERVAL), draining()).await;
        let line = self.unreported().take_line(now());
        report(line);
    }

    fn unreported(&self) -> MutexGuard<'_, UnreportedRefusals> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(
        &self,
        reason: Reason,
        (name, address): (Option<&str>, Option<IpAddr>),
        now: Duration,
    ) -> LogTiming {
        let mut unreported = self.unreported();
        match reason {
            Reason::CONNECTION_RATE_EXCEEDED => unreported.locked_out += 1,
            Reason::SERVER_BUSY | Reason::SERVER_UNAVAILABLE => unreported.busy += 1,
            _ => unreported.wrong += 1,
        }
        let name: String = name.unwrap_or_default().chars().take(MAX_NAME_CHARACTERS).collect();
        let address =
            address.map_or_else(|| "an unknown address".into(), |address| address.to_string());
        unreported.last = format!("by {name:?} from {address}");
        match unreported.last_logged.is_some_and(|last| now < last + LOG_INTERVAL) {
            false if !unreported.is_scheduled => LogTiming::Now(unreported.take_line(now)),
            _ if std::mem::replace(&mut unreported.is_scheduled, true) => LogTiming::Scheduled,
            _ => LogTiming::Later,
        }
    }
}

enum LogTiming {
    Now(String),
    Later,
    /// With the next line of the waiting operation.
    Scheduled,
}

impl UnreportedRefusals {
    fn take_line(&mut self, now: Duration) -> String {
        let Self { wrong, locked_out, busy, last, .. } = std::mem::take(self);
        self.last_logged = Some(now);
        format!(
            "logins refused: {wrong} wrong, {locked_out} locked out, {busy} too many at once or undecided; the last {last}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_log_line_per_ten_seconds() {
        let refused = RefusedLogins::new(Counter::new("refused", ""));
        let from = (Some("e\nve"), Some([10, 0, 0, 1].into()));
        let count = |reason, seconds| refused.count(reason, from, Duration::from_secs(seconds));
        let LogTiming::Now(first) = count(Reason::BAD_USER_NAME_OR_PASSWORD, 100) else { panic!() };
        assert!(
            first.contains("1 wrong") && first.ends_with("by \"e\\nve\" from 10.0.0.1"),
            "{first}"
        );
        assert!(matches!(count(Reason::CONNECTION_RATE_EXCEEDED, 101), LogTiming::Later));
        for second in 102..115 {
            assert!(matches!(
                count(Reason::CONNECTION_RATE_EXCEEDED, second),
                LogTiming::Scheduled
            ));
        }
        let next = refused.unreported().take_line(Duration::from_secs(115));
        assert!(next.contains("0 wrong, 14 locked out, 0 too many"), "{next}");
        assert!(matches!(count(Reason::SERVER_BUSY, 120), LogTiming::Later));
    }
}
