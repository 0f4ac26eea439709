//! One certificate of a plan: its state between two steps.

use std::time::{Duration, SystemTime};

use phalanx_tls::{Validity, validity};

use crate::plan::ChallengeKind;
use crate::schedule::{MAX_ASKED, MAX_AT_RELOAD, after_reload};
use crate::storage::{Failures, Storage, name_set};

/// An issued certificate that is not stored yet.
pub(crate) struct IssuedCertificate {
    /// The chain and the key.
    pub(crate) pem: String,
    pub(crate) kind: ChallengeKind,
    /// Whether the reason why it cannot be stored was reported.
    pub(crate) is_reported: bool,
}

/// A certificate of the plan.
pub(crate) struct Job {
    /// Its names, normalized by [`name_set`].
    pub(crate) names: Vec<String>,
    pub(crate) validity: Option<Validity>,
    /// Time of the next step.
    pub(crate) next: SystemTime,
    /// Time of the last attempt to get a certificate.
    last: SystemTime,
    /// The time before which the authority does not accept an attempt.
    retry_after: SystemTime,
    /// The certificate is not due before this time. Set when it is issued, in case the clock is wrong.
    pub(crate) not_before: SystemTime,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Number of attempts that the authority refused or did not complete; it selects the next challenge.
    pub(crate) refused: usize,
    pub(crate) issued: Option<IssuedCertificate>,
}

impl Job {
    /// Loads the stored state. After failures, the next attempt stays at its planned time.
    pub(crate) fn load(storage: &Storage, names: &[String], now: SystemTime) -> Self {
        let names = name_set(names);
        let failures = storage.load_failures(&names);
        let today = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Bounded, because the clock may have been wrong when the time was stored.
        let remaining = |then| Duration::from_secs(then).saturating_sub(today).min(MAX_ASKED);
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(failures.last).min(today);
        let mut job = Self {
            names,
            validity: None,
            next: if failures.count > 0 { now + remaining(failures.next) } else { now },
            last,
            retry_after: now + remaining(failures.asked),
            not_before: now,
            failures: failures.count,
            refused: failures.refused,
            issued: None,
        };
        job.refresh(storage);
        job
    }

    /// Reads the stored certificate.
    pub(crate) fn refresh(&mut self, storage: &Storage) {
        let file = storage.certificate(&self.names);
        self.validity = validity(&file, &file, &self.names);
    }

    /// Whether there is a certificate that clients accept.
    pub(crate) fn is_usable(&self, now: SystemTime) -> bool {
        self.validity.is_some_and(|validity| validity.is_for_all && now < validity.until)
    }

    /// Whether the certificate has these `names`.
    pub(crate) fn has_names(&self, names: &[String]) -> bool {
        self.names == name_set(names)
    }

    /// Brings the next attempt forward, because the operator has reloaded the configuration, but not before the time
    /// that the authority asked for. If the authority or the account has changed, earlier failures are ignored.
    pub(crate) fn on_reload(&mut self, has_changed: bool, now: SystemTime) {
        if has_changed || self.issued.is_some() {
            self.next = now;
        } else if self.failures > 0 || !self.is_usable(now) {
            self.next =
                after_reload(self.failures, (self.last, self.next), now).max(self.retry_after);
        }
    }

    /// Whether a reload leads to an attempt immediately.
    pub(crate) fn is_due_at_reload(&self, now: SystemTime) -> bool {
        self.failures <= MAX_AT_RELOAD && self.retry_after <= now
    }

    /// Plans the next attempt after a failure, in `delay`; `retry_after` is the delay that the authority asked for.
    pub(crate) fn record_failure(
        &mut self,
        delay: Duration,
        retry_after: Option<Duration>,
        storage: &Storage,
        now: SystemTime,
    ) {
        self.failures = self.failures.saturating_add(1);
        (self.last, self.next) = (now, now + delay);
        self.retry_after = now + retry_after.unwrap_or_default().min(MAX_ASKED);
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
        };
        let failures = Failures {
            names: self.names.clone(),
            count: self.failures,
            refused: self.refused,
            last: seconds(self.last),
            next: seconds(self.next),
            asked: seconds(self.retry_after),
        };
        storage.save_failures(&self.names, Some(&failures));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authority's delay applies at a reload and after a restart, but not to another authority.
    #[test]
    fn a_reload_respects_the_authority() {
        const MINUTE: Duration = Duration::from_secs(60);
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(home.path(), "https://ca.test");
        drop(storage.lock().unwrap());
        let (names, now) = (["a.test".to_owned()], SystemTime::now());
        let mut job = Job::load(&storage, &names, now);
        job.record_failure(5 * MINUTE, None, &storage, now);
        assert!(job.is_due_at_reload(now));
        job.on_reload(false, now);
        assert_eq!(job.next, now);
        job.record_failure(180 * MINUTE, Some(180 * MINUTE), &storage, now);
        let restarted = Job::load(&storage, &names, now + MINUTE);
        for mut job in [job, restarted] {
            assert!(!job.is_due_at_reload(now + MINUTE));
            job.on_reload(false, now + MINUTE);
            assert!(job.next > now + 179 * MINUTE);
            job.on_reload(false, now + 181 * MINUTE);
            assert_eq!(job.next, now + 181 * MINUTE);
            job.on_reload(true, now + MINUTE);
            assert_eq!(job.next, now + MINUTE);
        }
    }
}
