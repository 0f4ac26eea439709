//! The work for one plan: orders and renewals at their times.

use std::fs::File;
use std::mem::replace;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use instant_acme::{Account, CertificateIdentifier};
use phalanx::runtime::report;
use phalanx_tls::Validity;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::account::PlanAccount;
use crate::job::{IssuedCertificate, Job};
use crate::order::{Context, OrderError, order, prepare};
use crate::plan::{ChallengeKind, Plan};
use crate::schedule::{latest, poll_delay, renewal, retry_delay, within};
use crate::shared::{MAX_SLEEP, Shared, State};
use crate::storage::{SaveError, Storage};
use crate::transport::{Transport, complete};

/// Time between two requests for the renewal window, if the authority has not answered the last one.
const QUESTION_INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);
/// Time between two attempts to lock the folder.
const LOCK_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two attempts to store an issued certificate.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// State carried over to the next plan.
#[derive(Default)]
pub(crate) struct CarriedState {
    plan: Option<Arc<Plan>>,
    account: PlanAccount,
    jobs: Vec<Job>,
}

/// The work for one plan.
pub(crate) struct PlanTask<'a> {
    shared: &'a Shared,
    plan: Arc<Plan>,
    version: u64,
    storage: Storage,
    transport: Option<Transport>,
    account: PlanAccount,
    jobs: Vec<Job>,
}

impl<'a> PlanTask<'a> {
    /// The work for `plan`. Orders and failures of the previous plan are carried over.
    pub(crate) fn new(
        shared: &'a Shared,
        plan: Arc<Plan>,
        version: u64,
        carried: CarriedState,
    ) -> Self {
        let (storage, now) = (plan.folder(), SystemTime::now());
        let previous = carried.plan.as_ref();
        let (mut account, mut jobs) = (PlanAccount::default(), Vec::new());
        let has_changed = previous.is_some_and(|previous| !previous.has_account_of(&plan));
        if !has_changed {
            jobs = carried.jobs;
        }
        // Otherwise the account is read again, which updates its contacts.
        if !has_changed && previous.is_some_and(|previous| previous.contact == plan.contact) {
            account = carried.account;
        }
        let job = |names: &Vec<String>| {
            let index = jobs.iter().position(|job: &Job| job.has_names(names));
            let mut job = match index {
                Some(index) => jobs.swap_remove(index),
                None => Job::load(&storage, names, now),
            };
            if previous.is_some() {
                job.refresh(&storage);
                job.on_reload(has_changed, now);
            }
            job
        };
        let jobs = plan.certificates.iter().map(job).collect();
        Self { shared, plan, version, storage, transport: None, account, jobs }
    }

    /// Maintains the certificates until the plan changes.
    pub(crate) fn run(mut self) -> CarriedState {
        self.update_metrics();
        if let Some(_lock) = self.lock() {
            self.adopt();
            self.announce();
            self.maintain();
        }
        CarriedState { plan: Some(self.plan), account: self.account, jobs: self.jobs }
    }

    fn maintain(&mut self) {
        loop {
            self.update_metrics();
            let now = SystemTime::now();
            let next = (0..self.jobs.len()).min_by_key(|&n| self.jobs[n].next);
            let remaining = next.map(|n| self.jobs[n].next.duration_since(now).unwrap_or_default());
            if let (Some(n), Some(Duration::ZERO)) = (next, remaining) {
                self.step(n, now);
            }
            let remaining = remaining.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
            if self.shared.wait_for_change(self.version, remaining) {
                return;
            }
        }
    }

    /// Locks the folder. `None` if the plan has changed.
    fn lock(&mut self) -> Option<File> {
        let mut last_reported = String::new();
        loop {
            let reason = match self.storage.lock() {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) => {
                    let folder = self.plan.storage.display();
                    format!(
                        "another process manages the certificates in {folder}; waiting for it to end"
                    )
                }
                Err(error) => format!("{error}; trying again every minute"),
            };
            if reason != last_reported {
                report(format_args!("acme: {reason}"));
                last_reported = reason;
            }
            if self.shared.wait_for_change(self.version, LOCK_INTERVAL) {
                return None;
            }
            // Another process may have renewed the certificates.
            self.jobs.iter_mut().for_each(|job| job.refresh(&self.storage));
            self.update_metrics();
        }
    }

    /// Uses stored certificates for hosts whose names have changed, until new ones are issued.
    fn adopt(&mut self) {
        let now = SystemTime::now();
        for job in self.jobs.iter_mut().filter(|job| job.validity.is_none()) {
            self.storage.adopt(&job.names, now);
            job.refresh(&self.storage);
        }
        self.reload(now);
    }

    /// Makes handshakes use the stored certificates.
    fn reload(&self, now: SystemTime) {
        self.shared.certificates.reload_changed(now).iter().for_each(report);
    }

    fn announce(&self) {
        let now = SystemTime::now();
        for job in self.jobs.iter().filter(|job| job.failures > 0 && job.next > now) {
            let (all, wait) = (job.names.join(", "), in_words(job.next, now));
            let failures = job.failures;
            let end = at_reload(job, now);
            report(format_args!("acme: {all}: {failures} failures; next attempt in {wait}{end}"));
        }
    }

    /// Updates the gauges.
    fn update_metrics(&self) {
        let (now, metrics) = (SystemTime::now(), &self.shared.metrics);
        let missing = self.jobs.iter().filter(|job| !job.is_usable(now)).count();
        let expiries = self.jobs.iter().filter_map(|job| job.validity);
        let first = expiries.map(|validity| validity.until).min().unwrap_or(SystemTime::UNIX_EPOCH);
        let first = first.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        metrics.set_certificates(self.jobs.len(), missing, first);
    }

    /// Stores, renews or orders a certificate, if that is due.
    fn step(&mut self, n: usize, now: SystemTime) {
        if self.jobs[n].issued.is_some() {
            return self.save(n);
        }
        self.jobs[n].refresh(&self.storage);
        let mut replaced = None;
        if let Some(validity) = self.jobs[n].validity
            && self.jobs[n].is_usable(now)
        {
            let file = self.storage.certificate(&self.jobs[n].names);
            replaced = identifier(&file);
            let (due, question) = self.due(&validity, replaced.as_ref(), now);
            let job = &mut self.jobs[n];
            let due = due.max(job.not_before);
            if due > now {
                (job.next, job.failures) = (due.min(question), 0);
                return;
            }
        }
        self.attempt(n, replaced);
    }

    /// The time at which a certificate is due, and the time of the next request to the authority.
    fn due(
        &mut self,
        validity: &Validity,
        id: Option<&CertificateIdentifier<'_>>,
        now: SystemTime,
    ) -> (SystemTime, SystemTime) {
        // If there is no answer, the lifetime determines the time.
        let answer = id.and_then(|id| {
            let account = self.open_account().ok()?;
            complete(account.renewal_info(id)).ok()
        });
        let Some((info, retry_after)) = answer else {
            return (renewal(validity), now + QUESTION_INTERVAL);
        };
        let window = info.suggested_window;
        let due = within(window.start.into(), window.end.into(), fastrand::f64());
        (due.min(latest(validity)), now + poll_delay(retry_after))
    }

    /// Orders a certificate.
    fn attempt(&mut self, n: usize, replaced: Option<CertificateIdentifier<'static>>) {
        let names = self.jobs[n].names.clone();
        let kinds = &self.plan.challenges;
        let kind = kinds[self.jobs[n].refused % kinds.len()];
        // Discard a delay requested by an earlier response, which was for another request.
        self.transport.as_ref().and_then(Transport::take_retry_after);
        let mut result = self.order(&names, kind, replaced.clone());
        if let Err(OrderError::NoAccount) = result {
            // Once more, with another account.
            self.account.forget(&self.storage);
            result = self.order(&names, kind, replaced);
        }
        let reason = match result {
            Ok(pem) => {
                self.shared.metrics.issued.add(1);
                // The failures are cleared first: if the certificate cannot be stored, a restart gets it again without
                // a delay.
                self.storage.save_failures(&names, None);
                self.jobs[n].issued = Some(IssuedCertificate { pem, kind, is_reported: false });
                return self.save(n);
            }
            Err(OrderError::Stopped) => return,
            Err(OrderError::NoAccount) => {
                "the authority does not know the account that it has just created".to_owned()
            }
            Err(OrderError::Refused(reason)) => {
                self.jobs[n].refused += 1;
                self.storage.remove_order(&names);
                reason
            }
            Err(OrderError::NotValidated(reason)) => {
                self.jobs[n].refused += 1;
                reason
            }
            Err(OrderError::Error(reason)) => reason,
        };
        self.fail(n, kind, &reason);
    }

    /// Stores an issued certificate, and uses it. If the disk is full, it stays in memory until there is space, because
    /// authorities limit the number of certificates.
    fn save(&mut self, n: usize) {
        let (job, now) = (&mut self.jobs[n], SystemTime::now());
        let Some(issued) = &mut job.issued else { return };
        let (names, kind) = (job.names.join(", "), issued.kind);
        match self.storage.save_certificate(&job.names, &issued.pem) {
            Ok(()) => job.issued = None,
            Err(SaveError::Unusable(reason)) => {
                job.issued = None;
                return self.fail(n, kind, &reason);
            }
            Err(SaveError::Failed(reason)) => {
                job.next = now + SAVE_INTERVAL;
                if !replace(&mut issued.is_reported, true) {
                    report(format_args!(
                        "acme: {names}: the certificate is issued, but {reason}; it is kept in memory and stored as soon as \
                         that is possible"
                    ));
                }
                return;
            }
        }
        job.refresh(&self.storage);
        self.reload(now);
        let job = &mut self.jobs[n];
        let Some(validity) = job.validity.filter(|_| job.is_usable(now)) else {
            // A new certificate would have the same defect, so this counts as a failure.
            let reason =
                "the new certificate is not valid now or lacks a name; check this machine's clock";
            return self.fail(n, kind, reason);
        };
        (job.failures, job.refused) = (0, 0);
        let lifetime = validity.until.duration_since(validity.from).unwrap_or(QUESTION_INTERVAL);
        job.not_before = now + lifetime / 3;
        job.next = job.not_before.min(now + QUESTION_INTERVAL);
        let (until, kind) = (in_words(validity.until, now), kind.name());
        report(format_args!("acme: {names}: certificate issued, valid for {until} ({kind})"));
    }

    /// Plans the next attempt after a failure.
    fn fail(&mut self, n: usize, kind: ChallengeKind, reason: &str) {
        let (job, now) = (&mut self.jobs[n], SystemTime::now());
        let retry_after = self.transport.as_ref().and_then(Transport::take_retry_after);
        let delay = retry_delay(job.failures.saturating_add(1), retry_after, fastrand::f64());
        job.record_failure(delay, retry_after, &self.storage, now);
        self.shared.metrics.failed.add(1);
        let (names, wait, end) =
            (job.names.join(", "), in_words(job.next, now), at_reload(job, now));
        let (kind, reason) = (kind.name(), escape(reason));
        report(format_args!(
            "acme: {names}: no certificate ({kind}): {reason}; next attempt in {wait}{end}"
        ));
    }

    fn order(
        &mut self,
        names: &[String],
        kind: ChallengeKind,
        replaced: Option<CertificateIdentifier<'_>>,
    ) -> Result<String, OrderError> {
        let (shared, plan) = (self.shared, self.plan.clone());
        let pending = prepare(&self.storage, names)?;
        // A reload of the configuration does not end an order that is still wanted.
        let is_wanted = |state: &State| {
            let next = state.plan.as_ref();
            next.is_some_and(|next| next.has_account_of(&plan) && next.has_names(names))
        };
        let storage = self.storage.clone();
        let context = Context {
            account: self.open_account()?,
            challenges: &shared.challenges,
            certificates: &shared.certificates,
            storage: &storage,
            wait: &|limit| shared.wait_while(limit, is_wanted),
        };
        complete(order(&context, pending, kind, replaced))
    }

    fn open_account(&mut self) -> Result<&Account, OrderError> {
        let transport = match &self.transport {
            Some(transport) => transport,
            None => self.transport.insert(Transport::new(self.plan.ca.as_deref())?),
        };
        self.account.open(&self.plan, &self.storage, transport)
    }
}

/// The identifier of a certificate for its authority (RFC 9773 §4.1).
fn identifier(file: &Path) -> Option<CertificateIdentifier<'static>> {
    let certificate = CertificateDer::from_pem_file(file).ok()?;
    CertificateIdentifier::try_from(&certificate).ok().map(CertificateIdentifier::into_owned)
}

/// The time from `now` to `then`, in one unit.
fn in_words(then: SystemTime, now: SystemTime) -> String {
    let seconds = then.duration_since(now).unwrap_or_default().as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Text of an authority without control characters, so that it is a single line without terminal commands.
fn escape(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escape).collect()
}

/// The end of a message about the next attempt.
fn at_reload(job: &Job, now: SystemTime) -> &'static str {
    if job.is_due_at_reload(now) { ", or at SIGHUP" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_writes_no_line_of_its_own() {
        assert_eq!(escape("no\nphalanx: \u{1b}[2J\u{9b}\""), "no\\nphalanx: \\u{1b}[2J\\u{9b}\"");
    }
}
