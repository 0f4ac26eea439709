//! Health of a server. A server that fails repeatedly gets no requests for a while (it is ejected), and none while its
//! checks fail.
//!
//! The time doubles with each further failure. The first request afterwards is a trial: until the server responds, it
//! gets one request per second. The head of a response resets the count of failures, because a response may last for
//! hours. Responses that end early are counted separately; a complete response, or a few minutes without another
//! truncated one, resets that count.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Failures in a row that eject a server.
const MAX_FAILURES: u32 = 3;
/// Duration of the first ejection, and of all from the seventh on.
const MIN_EJECTION: Duration = Duration::from_secs(1);
const MAX_EJECTION: Duration = Duration::from_secs(60);
/// Time after which responses that ended early are forgotten.
const TRUNCATIONS_KEPT: Duration = Duration::from_secs(300);
/// Time between two trials. A trial may end without a result, if its client disconnects.
const TRIAL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether an attempt to connect has failed because this process or machine has no descriptor, port or memory left.
/// Such an error says nothing about the server.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

/// The health of one server, as all processors see it.
#[derive(Default)]
pub(crate) struct Health {
    /// Failures since the last response.
    failures: AtomicU32,
    /// Responses that ended early since the last complete one.
    truncations: AtomicU32,
    /// Time of the last truncated response, in milliseconds since the start of the program.
    truncated: AtomicU64,
    /// Time at which the server gets requests again, in milliseconds since the start of the program.
    until: AtomicU64,
    /// Time until which no further trial begins, in milliseconds since the start of the program.
    trial: AtomicU64,
    /// Its checks fail.
    is_down: AtomicBool,
}

impl Health {
    /// Whether the server may get requests.
    pub(crate) fn is_good(&self, now: Duration) -> bool {
        // Most servers never fail, so these are two loads.
        let (until, now) = (self.until.load(Relaxed), millis(now));
        let is_ejected = || now < until || now < self.trial.load(Relaxed);
        !self.is_down.load(Relaxed) && (until == 0 || !is_ejected())
    }

    /// Records that the server gets a request, which is a trial after an ejection.
    pub(super) fn chosen(&self, now: Duration) {
        if self.until.load(Relaxed) != 0 {
            self.trial.store(millis(now + TRIAL_INTERVAL), Relaxed);
        }
    }

    /// Records a new result of the health checks. Earlier failures of requests are forgotten.
    pub(crate) fn checked(&self, is_up: bool) {
        if is_up {
            self.failures.store(0, Relaxed);
            self.truncations.store(0, Relaxed);
            self.until.store(0, Relaxed);
        }
        self.is_down.store(!is_up, Relaxed);
    }

    /// Records that the head of a response has arrived.
    pub(crate) fn responded(&self, now: Duration) {
        let failures = self.failures.load(Relaxed);
        if failures > 0 {
            self.failures.store(0, Relaxed);
        }
        let until = self.until.load(Relaxed);
        // If truncated responses have ejected the server, a head does not end the ejection early, because truncated
        // responses have heads, too.
        if until > 0 && (failures >= MAX_FAILURES || until <= millis(now)) {
            self.until.store(0, Relaxed);
        }
    }

    /// Records that a response is complete.
    pub(crate) fn completed(&self) {
        if self.truncations.load(Relaxed) > 0 {
            self.truncations.store(0, Relaxed);
        }
    }

    /// Records that the server could not be reached or has not responded. Returns whether this ejects it.
    pub(crate) fn failed(&self, now: Duration) -> bool {
        self.count(&self.failures, now)
    }

    /// Records that a response has ended early. Returns whether this ejects the server.
    pub(crate) fn truncated(&self, now: Duration) -> bool {
        // A restart of the server truncates all responses at once; this counts as one failure.
        if self.is_ejected(now) {
            return false;
        }
        let last = self.truncated.swap(millis(now), Relaxed);
        if millis(now).saturating_sub(last) >= millis(TRUNCATIONS_KEPT) {
            self.truncations.store(0, Relaxed);
        }
        self.count(&self.truncations, now)
    }

    fn is_ejected(&self, now: Duration) -> bool {
        self.is_down.load(Relaxed) || millis(now) < self.until.load(Relaxed)
    }

    fn count(&self, failures: &AtomicU32, now: Duration) -> bool {
        let failures = failures.fetch_add(1, Relaxed).saturating_add(1);
        // Failures of requests that were in progress at the ejection are not counted again.
        if failures < MAX_FAILURES || self.is_ejected(now) {
            return false;
        }
        let times = (failures - MAX_FAILURES).min(6);
        let end = now + MIN_EJECTION.saturating_mul(1 << times).min(MAX_EJECTION);
        self.until.store(millis(end), Relaxed);
        true
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_this_machine() {
        let is = |code: rustix::io::Errno| is_exhausted(&code.into());
        assert!(is(rustix::io::Errno::MFILE) && is(rustix::io::Errno::ADDRNOTAVAIL));
        assert!(!is(rustix::io::Errno::CONNREFUSED));
        assert!(!is_exhausted(&io::ErrorKind::TimedOut.into()));
    }

    #[test]
    fn failures_in_a_row_eject() {
        let at = Duration::from_secs;
        let health = Health::default();
        assert!(!health.failed(at(1)) && !health.failed(at(1)));
        health.responded(at(1));
        assert!(!health.failed(at(1)) && !health.failed(at(1)) && health.is_good(at(1)));
        assert!(health.failed(at(1)), "the third in a row");
        assert!(!health.is_good(at(1)) && health.is_good(at(2)));
        assert!(health.failed(at(2)), "the trial");
        assert!(!health.is_good(at(3)) && health.is_good(at(4)), "for twice the time");
        health.responded(at(2));
        assert!(health.is_good(at(3)));
        for n in 0..40 {
            health.failed(at(100 * n));
        }
        assert!(!health.is_good(at(3950)) && health.is_good(at(3960)), "a minute at most");
    }

    #[test]
    fn trials_begin_one_after_another() {
        let at = Duration::from_millis;
        let health = Health::default();
        health.chosen(at(0));
        assert!(health.is_good(at(0)), "it is no trial");
        (0..3).for_each(|_| _ = health.failed(at(0)));
        assert!(!health.is_good(at(999)) && health.is_good(at(1000)));
        health.chosen(at(1000));
        assert!(!health.is_good(at(1999)) && health.is_good(at(2000)), "the first has no result");
        health.chosen(at(2000));
        assert!(health.failed(at(2100)), "the second fails");
        assert!(!health.is_good(at(4099)) && health.is_good(at(4100)));
        health.chosen(at(4100));
        health.responded(at(4100));
        assert!(health.is_good(at(4100)));
    }

    #[test]
    fn a_server_whose_checks_fail_is_down() {
        let health = Health::default();
        health.checked(false);
        health.responded(Duration::ZERO);
        assert!(!health.is_good(Duration::MAX), "a single response is not enough");
        let ejected = (0..3).filter(|_| health.failed(Duration::ZERO)).count();
        assert_eq!(ejected, 0, "it is down already");
        health.checked(true);
        assert!(health.is_good(Duration::ZERO));
    }

    /// A server that begins each response and completes none.
    #[test]
    fn responses_that_end_early_eject() {
        let at = Duration::from_secs;
        let health = Health::default();
        let truncated = |second| {
            health.responded(at(second));
            health.truncated(at(second))
        };
        assert!(!truncated(1) && !truncated(1) && truncated(1), "the third in a row");
        assert!(!health.is_good(at(1)) && health.is_good(at(2)));
        assert!((0..50).all(|_| !health.truncated(at(1))), "those in progress count as one");
        assert!(truncated(2), "the next");
        assert!(!health.is_good(at(3)) && health.is_good(at(4)), "for twice the time");
        health.responded(at(3));
        assert!(!health.is_good(at(3)), "a request in progress");
        health.responded(at(4));
        assert!(health.is_good(at(3)), "it responds");
        health.completed();
        assert!(!truncated(4) && !truncated(4), "from the start");
    }

    /// A server most of whose responses last until it is restarted.
    #[test]
    fn responses_that_ended_early_are_forgotten() {
        let at = Duration::from_secs;
        let health = Health::default();
        assert!((0..50).all(|n| !health.truncated(at(1 + 300 * n))), "one in five minutes");
        assert!(!health.truncated(at(15_100)) && !health.truncated(at(15_399)));
        assert!(health.truncated(at(15_600)), "the third within this time");
    }

    #[test]
    fn failures_during_an_ejection_do_not_prolong_it() {
        let at = Duration::from_secs;
        let health = Health::default();
        let ejections = (0..50).filter(|_| health.failed(at(1))).count();
        assert!(ejections == 1 && health.is_good(at(2)));
    }
}
