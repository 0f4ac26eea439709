//! One certificate of a plan: its state between two steps.

use std::time::{Duration, SystemTime};

use phalanx_tls::{Validity, validity};

use crate::plan::ChallengeKind;
use crate::schedule::{MAX_ASKED, after_reload};
use crate::storage::{Failures, Storage, name_set};

/// An issued certificate that is not stored yet.
pub(crate) struct Issued {
    /// The chain and the key.
    pub(crate) pem: String,
    pub(crate) kind: ChallengeKind,
    /// Whether the reason was reported why it cannot be stored.
    pub(crate) is_reported: bool,
}

/// A certificate of the plan.
pub(crate) struct Job {
    /// Its names, as [`name_set`] has them.
    pub(crate) names: Vec<String>,
    pub(crate) validity: Option<Validity>,
    /// Time of the next step.
    pub(crate) next: SystemTime,
    /// Time of the last attempt to get a certificate.
    last: SystemTime,
    /// A certificate that was just issued is not due before, even if the clock is wrong.
    pub(crate) not_before: SystemTime,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Attempts that the authority refused or did not complete, each of which leads to the next challenge.
    pub(crate) refused: usize,
    pub(crate) issued: Option<Issued>,
}

impl Job {
    /// The stored state. After failures, the next attempt is at the planned time.
    pub(crate) fn load(storage: &Storage, names: &[String], now: SystemTime) -> Self {
        let names = name_set(names);
        let failures = storage.load_failures(&names);
        let today = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Bounded, because the clock may have been wrong.
        let left = Duration::from_secs(failures.next).saturating_sub(today).min(MAX_ASKED);
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(failures.last).min(today);
        let mut job = Self {
            names,
            validity: None,
            next: if failures.count > 0 { now + left } else { now },
            last,
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

    /// Whether it is for `names`.
    pub(crate) fn has(&self, names: &[String]) -> bool {
        self.names == name_set(names)
    }

    /// Brings the next attempt forward, because the operator has reloaded the configuration. If the authority or the
    /// account has changed, earlier failures say nothing.
    pub(crate) fn reloaded(&mut self, has_changed: bool, now: SystemTime) {
        if has_changed || self.issued.is_some() {
            self.next = now;
        } else if self.failures > 0 || !self.is_usable(now) {
            self.next = after_reload(self.failures, (self.last, self.next), now);
        }
    }

    /// Plans the next attempt after a failure, in `delay`.
    pub(crate) fn failed(&mut self, delay: Duration, storage: &Storage, now: SystemTime) {
        self.failures = self.failures.saturating_add(1);
        (self.last, self.next) = (now, now + delay);
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
        };
        let failures = Failures {
            names: self.names.clone(),
            count: self.failures,
            refused: self.refused,
            last: seconds(self.last),
            next: seconds(self.next),
        };
        storage.save_failures(&self.names, Some(&failures));
    }
}
