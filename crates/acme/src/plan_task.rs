//! The work for one plan: orders and renewals at their times.

use std::fs::File;
use std::time::{Duration, SystemTime};

use instant_acme::{
    Account, AccountCredentials, CertificateIdentifier, ExternalAccountKey, NewAccount,
};
use phalanx_tls::{Validity, validity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use crate::order::{Context, Failed, order};
use crate::plan::{ChallengeKind, Plan};
use crate::schedule::{MAX_ASKED, latest, question_delay, renewal, retry_delay, within};
use crate::shared::{MAX_SLEEP, Shared};
use crate::storage::{Failures, Storage};
use crate::transport::{Transport, complete};

/// Time between two questions for the renewal window, if the authority has not answered the last one.
const QUESTION_INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);
/// Time between two attempts to lock the folder.
const LOCK_INTERVAL: Duration = Duration::from_secs(60);

/// A certificate of the plan.
struct Job {
    names: Vec<String>,
    validity: Option<Validity>,
    /// Time of the next step.
    next: SystemTime,
    /// A certificate that was just issued is not due before, even if the clock is wrong.
    not_before: SystemTime,
    /// Failures in a row.
    failures: u32,
    /// Orders that the authority refused, each of which leads to the next challenge.
    refused: usize,
}

impl Job {
    /// Whether there is a certificate that clients accept.
    fn is_usable(&self, now: SystemTime) -> bool {
        self.validity.is_some_and(|validity| validity.is_for_all && now < validity.until)
    }
}

/// The account as stored.
#[derive(Deserialize, Serialize)]
struct Stored {
    contact: Vec<String>,
    credentials: AccountCredentials,
}

/// The work for one plan.
pub(crate) struct PlanTask<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    version: u64,
    storage: Storage,
    transport: Option<Transport>,
    account: Option<Account>,
    jobs: Vec<Job>,
}

impl<'a> PlanTask<'a> {
    pub(crate) fn new(shared: &'a Shared, plan: &'a Plan, version: u64) -> Self {
        let storage = plan.folder();
        Self { shared, plan, version, storage, transport: None, account: None, jobs: Vec::new() }
    }

    /// Keeps the certificates until the plan changes.
    pub(crate) fn run(&mut self, is_first: bool) {
        let Some(_lock) = self.lock() else { return };
        let now = SystemTime::now();
        for names in &self.plan.certificates {
            let failures = self.storage.load_failures(names);
            // Bounded, because the clock may have been wrong.
            let today = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let left = Duration::from_secs(failures.next).saturating_sub(today).min(MAX_ASKED);
            let planned = now + left;
            self.jobs.push(Job {
                names: names.clone(),
                validity: self.validity(names),
                next: if is_first && failures.count > 0 { planned } else { now },
                not_before: now,
                failures: failures.count,
                refused: 0,
            });
        }
        for job in self.jobs.iter().filter(|job| job.next > now) {
            let (all, wait) = (job.names.join(", "), in_words(job.next, now));
            report(&format!(
                "{all}: no attempt after {} failures for {wait}, or until SIGHUP",
                job.failures
            ));
        }
        loop {
            self.show();
            let now = SystemTime::now();
            let next = (0..self.jobs.len()).min_by_key(|&n| self.jobs[n].next);
            let left = next.map(|n| self.jobs[n].next.duration_since(now).unwrap_or_default());
            match (next, left) {
                (Some(n), Some(Duration::ZERO)) => {
                    if self.step(n, now).is_err() {
                        return;
                    }
                }
                (_, left) => {
                    let left = left.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
                    if self.shared.waits_for_change(self.version, left) {
                        return;
                    }
                }
            }
        }
    }

    /// Locks the folder. `None` if the plan has changed.
    fn lock(&self) -> Option<File> {
        let mut reported = String::new();
        loop {
            let why = match self.storage.lock() {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) => {
                    let folder = self.plan.storage.display();
                    format!("another process keeps the certificates in {folder}; waiting for it")
                }
                Err(error) => format!("{error}; trying again every minute"),
            };
            if why != reported {
                report(&why);
                reported = why;
            }
            if self.shared.waits_for_change(self.version, LOCK_INTERVAL) {
                return None;
            }
        }
    }

    fn validity(&self, names: &[String]) -> Option<Validity> {
        let file = self.storage.certificate(names);
        validity(&file, &file, names)
    }

    /// Updates the gauges.
    fn show(&self) {
        let (now, metrics) = (SystemTime::now(), &self.shared.metrics);
        let missing = self.jobs.iter().filter(|job| !job.is_usable(now)).count();
        let ends = self.jobs.iter().filter_map(|job| job.validity);
        let first = ends.map(|validity| validity.until).min().unwrap_or(SystemTime::UNIX_EPOCH);
        let first = first.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        metrics.managed.set(self.jobs.len() as i64);
        metrics.missing.set(missing as i64);
        metrics.expiry.set(first.as_secs() as i64);
    }

    /// Renews a certificate if it is due.
    ///
    /// # Errors
    /// If the plan has changed.
    fn step(&mut self, n: usize, now: SystemTime) -> Result<(), ()> {
        self.jobs[n].validity = self.validity(&self.jobs[n].names);
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
                return Ok(());
            }
        }
        self.attempt(n, replaced)
    }

    /// When a certificate is due, and when to ask the authority next.
    fn due(
        &mut self,
        validity: &Validity,
        id: Option<&CertificateIdentifier<'_>>,
        now: SystemTime,
    ) -> (SystemTime, SystemTime) {
        // Without an answer, the lifetime decides.
        let answer = id.and_then(|id| {
            let account = self.account().ok()?;
            complete(account.renewal_info(id)).ok()
        });
        let Some((info, asked)) = answer else {
            return (renewal(validity), now + QUESTION_INTERVAL);
        };
        let window = info.suggested_window;
        let due = within(window.start.into(), window.end.into(), fastrand::f64());
        (due.min(latest(validity)), now + question_delay(asked))
    }

    /// Orders a certificate.
    ///
    /// # Errors
    /// If the plan has changed.
    fn attempt(
        &mut self,
        n: usize,
        replaced: Option<CertificateIdentifier<'static>>,
    ) -> Result<(), ()> {
        let names = self.jobs[n].names.clone();
        let kinds = &self.plan.challenges;
        let kind = kinds[self.jobs[n].refused % kinds.len()];
        let mut made = self.order(&names, kind, replaced.clone());
        if let Err(Failed::NoAccount) = made {
            // Once more, with another account.
            self.storage.remove_account();
            self.account = None;
            made = self.order(&names, kind, replaced);
        }
        let made = made.and_then(|pem| Ok(self.storage.save_certificate(&names, &pem)?));
        let (all, now) = (names.join(", "), SystemTime::now());
        let why = match made {
            Ok(()) => {
                let validity = self.validity(&names);
                let told = self.shared.certificates.reload_changed(now);
                told.iter().for_each(|line| eprintln!("phalanx: {line}"));
                let job = &mut self.jobs[n];
                job.validity = validity;
                if !job.is_usable(now) {
                    // Another one would be the same, so this is a failure.
                    let why = "the new certificate is not valid now or lacks a name; is the time of this machine right?";
                    self.fail(n, kind, why);
                    return Ok(());
                }
                job.failures = 0;
                let lifetime =
                    validity.map(|validity| validity.until.duration_since(validity.from));
                let lifetime = lifetime.and_then(Result::ok).unwrap_or(QUESTION_INTERVAL);
                job.not_before = now + lifetime / 3;
                job.next = job.not_before.min(now + QUESTION_INTERVAL);
                self.storage.save_failures(&names, None);
                self.shared.metrics.issued.add(1);
                let until = validity.map_or_else(String::new, |validity| {
                    format!(", valid for {}", in_words(validity.until, now))
                });
                report(&format!("{all}: certificate issued{until} ({})", kind.name()));
                return Ok(());
            }
            Err(Failed::Stopped) => return Err(()),
            Err(Failed::NoAccount) => "the authority does not know its own account".to_owned(),
            Err(Failed::Refused(why)) => {
                self.jobs[n].refused += 1;
                why
            }
            Err(Failed::Error(why)) => why,
        };
        self.fail(n, kind, &why);
        Ok(())
    }

    /// Plans the next attempt after a failure.
    fn fail(&mut self, n: usize, kind: ChallengeKind, why: &str) {
        let (names, now) = (self.jobs[n].names.clone(), SystemTime::now());
        let asked = self.transport.as_ref().and_then(Transport::take_asked);
        let failures = self.jobs[n].failures.saturating_add(1);
        let next = now + retry_delay(failures, asked, fastrand::f64());
        (self.jobs[n].failures, self.jobs[n].next) = (failures, next);
        let since = next.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let stored = Failures { names: names.clone(), count: failures, next: since.as_secs() };
        self.storage.save_failures(&names, Some(&stored));
        self.shared.metrics.failed.add(1);
        let wait = in_words(next, now);
        report(&format!(
            "{}: no certificate ({}): {why}; next attempt in {wait}, or at SIGHUP",
            names.join(", "),
            kind.name()
        ));
    }

    fn order(
        &mut self,
        names: &[String],
        kind: ChallengeKind,
        replaced: Option<CertificateIdentifier<'_>>,
    ) -> Result<String, Failed> {
        let (shared, version) = (self.shared, self.version);
        let context = Context {
            account: self.account()?,
            challenges: &shared.challenges,
            certificates: &shared.certificates,
            wait: &|limit| !shared.waits_for_change(version, limit),
        };
        complete(order(&context, names, kind, replaced))
    }

    /// The account: the stored one, or a new one.
    fn account(&mut self) -> Result<&Account, Failed> {
        let transport = match &self.transport {
            Some(transport) => transport.clone(),
            None => self.transport.insert(Transport::new(self.plan.ca.as_deref())?).clone(),
        };
        if self.account.is_none() {
            let builder = Account::builder_with_http(Box::new(transport));
            let contact: Vec<_> = self.plan.contact.iter().map(String::as_str).collect();
            let account = match self.storage.load_account::<Stored>()? {
                Some(stored) => {
                    let credentials = serde_json::to_value(&stored.credentials);
                    let account = complete(builder.from_credentials(stored.credentials))?;
                    if stored.contact != self.plan.contact
                        && let Ok(Ok(credentials)) = credentials.map(serde_json::from_value)
                    {
                        complete(account.update_contacts(&contact))?;
                        let contact = self.plan.contact.clone();
                        self.storage.save_account(&Stored { contact, credentials })?;
                    }
                    account
                }
                None => {
                    let external = self.plan.external.as_ref();
                    let external = external.map(|external| {
                        let key = external.read()?;
                        Ok::<_, String>(ExternalAccountKey::new(external.id.clone(), &key))
                    });
                    let external = external.transpose()?;
                    let account = NewAccount {
                        contact: &contact,
                        terms_of_service_agreed: true,
                        only_return_existing: false,
                    };
                    let directory = self.plan.directory.clone();
                    let made = builder.create(&account, directory, external.as_ref());
                    let (account, credentials) = complete(made)?;
                    let contact = self.plan.contact.clone();
                    self.storage.save_account(&Stored { contact, credentials })?;
                    account
                }
            };
            self.account = Some(account);
        }
        Ok(self.account.as_ref().expect("it was just set"))
    }
}

/// The identifier of a certificate for its authority (RFC 9773 §4.1).
fn identifier(file: &std::path::Path) -> Option<CertificateIdentifier<'static>> {
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

fn report(line: &str) {
    eprintln!("phalanx: acme: {line}");
}
