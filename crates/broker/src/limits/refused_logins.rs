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

/// Maximum number of characters of a user name in the log.
const SHOWN_CHARACTERS: usize = 64;

/// The counter and the log's rate limit.
pub(crate) struct RefusedLogins {
    counter: Counter,
    untold: Mutex<Untold>,
}

/// Refusals since the last log line.
#[derive(Default)]
struct Untold {
    wrong: u64,
    locked_out: u64,
    busy: u64,
    /// The last user name and address.
    last: String,
    /// When the last line was logged.
    told: Option<Duration>,
    /// Whether an operation waits to log the next line.
    is_awaited: bool,
}

impl RefusedLogins {
    pub(crate) fn new(counter: Counter) -> Self {
        Self { counter, untold: Mutex::default() }
    }

    /// Counts a refused login of this user and address, as far as known. The line is logged now, or later by an operation
    /// of `stage`.
    pub(crate) fn refused(
        self: &Arc<Self>,
        reason: Reason,
        (name, address): (Option<&str>, Option<IpAddr>),
        stage: SharedStage<()>,
    ) {
        self.counter.add(1);
        match self.note(reason, (name, address), now()) {
            Told::Now(line) => report(line),
            Told::Later => {
                let own = self.clone();
                let _ = stage.dispatch(move |_| async move { own.tell_later().await });
            }
            Told::Already => (),
        }
    }

    async fn tell_later(&self) {
        select(sleep(LOG_INTERVAL), draining()).await;
        let line = self.untold().line(now());
        report(line);
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(
        &self,
        reason: Reason,
        (name, address): (Option<&str>, Option<IpAddr>),
        now: Duration,
    ) -> Told {
        let mut untold = self.untold();
        match reason {
            Reason::CONNECTION_RATE_EXCEEDED => untold.locked_out += 1,
            Reason::SERVER_BUSY | Reason::SERVER_UNAVAILABLE => untold.busy += 1,
            _ => untold.wrong += 1,
        }
        let name: String = name.unwrap_or_default().chars().take(SHOWN_CHARACTERS).collect();
        let address = address.map_or_else(|| "an unknown address".into(), |own| own.to_string());
        untold.last = format!("by {name:?} from {address}");
        match untold.told.is_some_and(|told| now < told + LOG_INTERVAL) {
            false if !untold.is_awaited => Told::Now(untold.line(now)),
            _ if std::mem::replace(&mut untold.is_awaited, true) => Told::Already,
            _ => Told::Later,
        }
    }
}

/// When a refusal is logged.
enum Told {
    Now(String),
    Later,
    /// With the next line of the waiting operation.
    Already,
}

impl Untold {
    fn line(&mut self, now: Duration) -> String {
        let Self { wrong, locked_out, busy, last, .. } = std::mem::take(self);
        self.told = Some(now);
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
        let note = |reason, seconds| refused.note(reason, from, Duration::from_secs(seconds));
        let Told::Now(first) = note(Reason::BAD_USER_NAME_OR_PASSWORD, 100) else { panic!() };
        assert!(
            first.contains("1 wrong") && first.ends_with("by \"e\\nve\" from 10.0.0.1"),
            "{first}"
        );
        assert!(matches!(note(Reason::CONNECTION_RATE_EXCEEDED, 101), Told::Later));
        for second in 102..115 {
            assert!(matches!(note(Reason::CONNECTION_RATE_EXCEEDED, second), Told::Already));
        }
        let next = refused.untold().line(Duration::from_secs(115));
        assert!(next.contains("0 wrong, 14 locked out, 0 too many"), "{next}");
        assert!(matches!(note(Reason::SERVER_BUSY, 120), Told::Later));
    }
}
