//! The time of a renewal, and of the next attempt after a failure.

use std::time::{Duration, SystemTime};

use phalanx_tls::Validity;

/// Delay after the first failure. Five failures take more than an hour, which is the limit of Let's Encrypt for failed
/// validations of a name.
const FIRST_DELAY: Duration = Duration::from_secs(5 * 60);
/// Longest delay between attempts, unless the authority asks for a longer one.
const MAX_DELAY: Duration = Duration::from_secs(6 * 60 * 60);
/// Longest delay that an authority can ask for.
pub(crate) const MAX_ASKED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bounds of the time between two requests for the authority's renewal window.
const QUESTIONS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(24 * 60 * 60)];

/// Failures in a row up to which a reload of the configuration leads to an attempt immediately. Later attempts start at
/// least [`RELOAD_INTERVAL`] after the previous one, so five failures take an hour, no matter how often the
/// configuration is reloaded.
pub(crate) const MAX_AT_RELOAD: u32 = 2;
/// After more failures, the minimum time from an attempt until a reload leads to another one.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// When a certificate is renewed without advice of the authority: after two thirds of its lifetime.
pub(crate) fn renewal(validity: &Validity) -> SystemTime {
    let lifetime = validity.until.duration_since(validity.from).unwrap_or_default();
    validity.from + lifetime * 2 / 3
}

/// The latest time of a renewal, even if the authority advises a later one.
pub(crate) fn latest(validity: &Validity) -> SystemTime {
    let lifetime = validity.until.duration_since(validity.from).unwrap_or_default();
    validity.from + lifetime * 9 / 10
}

/// The delay after this number of failures in a row, one or more. `retry_after` is the least delay that the authority
/// asked for, and `random` a number from 0 to 1, which spreads the attempts of several servers.
pub(crate) fn retry_delay(failures: u32, retry_after: Option<Duration>, random: f64) -> Duration {
    let backoff = FIRST_DELAY * (1 << failures.saturating_sub(1).min(16));
    let delay = backoff.min(MAX_DELAY).mul_f64(1.0 + random / 10.0);
    delay.max(retry_after.unwrap_or_default().min(MAX_ASKED))
}

/// The time of the next attempt if the configuration is reloaded after this number of failures in a row. `last` is the
/// time of the last attempt, and `next` the planned time.
pub(crate) fn after_reload(
    failures: u32,
    (last, next): (SystemTime, SystemTime),
    now: SystemTime,
) -> SystemTime {
    if failures <= MAX_AT_RELOAD { now } else { next.min(last + RELOAD_INTERVAL).max(now) }
}

/// A random time in the authority's renewal window (RFC 9773 §4.2).
pub(crate) fn within(start: SystemTime, end: SystemTime, random: f64) -> SystemTime {
    start + end.duration_since(start).unwrap_or_default().mul_f64(random)
}

/// The time until the next request for the window, if the authority asked for the delay `retry_after`.
pub(crate) fn poll_delay(retry_after: Duration) -> Duration {
    retry_after.clamp(QUESTIONS[0], QUESTIONS[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn delays_grow_and_respect_the_authority() {
        let delays: Vec<_> = (1..=8).map(|n| retry_delay(n, None, 0.0).as_secs() / 60).collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 360]);
        assert!(delays[..4].iter().sum::<u64>() > 60, "at most five attempts in an hour");
        assert_eq!(retry_delay(u32::MAX, None, 1.0), MAX_DELAY.mul_f64(1.1));
        assert_eq!(retry_delay(1, Some(90 * MINUTE), 0.5), 90 * MINUTE);
        assert_eq!(retry_delay(1, Some(MINUTE), 0.0), 5 * MINUTE);
        assert_eq!(retry_delay(1, Some(Duration::MAX), 0.0), MAX_ASKED);
    }

    #[test]
    fn reloads_do_not_exceed_five_failures_in_an_hour() {
        let start = SystemTime::UNIX_EPOCH + 1000 * MINUTE;
        // An operator who reloads every minute.
        let (mut now, mut last, mut next, mut failures) = (start, start, start, 0);
        let mut attempts = Vec::new();
        while now < start + 6 * 60 * MINUTE {
            next = after_reload(failures, (last, next), now);
            if next <= now {
                failures += 1;
                (last, next) = (now, now + retry_delay(failures, None, 0.0));
                attempts.push(now);
            }
            now += MINUTE;
        }
        let times: Vec<_> =
            attempts.iter().map(|at| at.duration_since(start).unwrap().as_secs() / 60).collect();
        assert_eq!(times, [0, 1, 2, 22, 62, 122, 182, 242, 302]);
    }

    #[test]
    fn renewals() {
        let from = SystemTime::UNIX_EPOCH + 1000 * MINUTE;
        let validity = Validity { from, until: from + 90 * MINUTE, is_for_all: true };
        assert_eq!(renewal(&validity), from + 60 * MINUTE);
        assert_eq!(latest(&validity), from + 81 * MINUTE);
        // A certificate with an invalid validity period is due.
        let validity = Validity { until: from - MINUTE, ..validity };
        assert_eq!(renewal(&validity), from);
        assert_eq!(within(from, from + 4 * MINUTE, 0.25), from + MINUTE);
        assert_eq!(within(from, from - MINUTE, 0.25), from);
        assert_eq!(poll_delay(Duration::ZERO), MINUTE);
        assert_eq!(poll_delay(Duration::MAX), 24 * 60 * MINUTE);
    }
}
