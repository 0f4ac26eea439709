//! Logins that an HTTP service decides.
//!
//! Logins wait in a fair queue ([`Logins`]), and workers take them. A worker is an operation with a connection of its own;
//! it starts when logins wait, and ends when none has come for a few seconds.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::shutdown::draining;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::{now, timeout};
use phalanx::{select, sleep};
use phalanx_guard::{Login, Logins, Refusal};
use phalanx_tls::Wire;
use serde_json::{Map, Value, json};

use super::answers::Answers;
use super::decision::decision;
use super::{Endpoint, Fetcher, Request, exchange, is_closed};

/// Maximum size of a request's body, in bytes: about 2,000 of them may wait.
const MAX_REQUEST_BYTES: usize = 32 * 1024;

/// Maximum size of the service's answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Time after which a worker without logins ends, and closes its connection.
const IDLE: Duration = Duration::from_secs(4);

/// Minimum time between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How the service is asked, and how long its answers are used.
#[derive(Clone)]
pub struct CallOutOptions {
    /// Whether the body of a request is a form; otherwise it is JSON.
    pub is_form: bool,
    /// The value of the field `Authorization`.
    pub authorization: Option<String>,
    /// Time limit of a request, and of the wait before it.
    pub timeout: Duration,
    /// Concurrent requests.
    pub max_requests: usize,
    /// Lifetime of an answer that allows.
    pub allowed: Duration,
    /// Lifetime of an answer that denies.
    pub denied: Duration,
    /// Answers that are kept; beyond, those that end next are dropped.
    pub max_answers: usize,
}

/// A service that decides about logins. Clones share queue, workers and answers.
#[derive(Clone)]
pub struct CallOuts(Arc<Shared>);

struct Shared {
    endpoint: Endpoint,
    options: CallOutOptions,
    logins: Logins<Job>,
    keys: RandomState,
    answers: Mutex<Answers>,
    workers: Mutex<Workers>,
    log: Mutex<Log>,
}

/// The credentials of a login, as the service gets them.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The user name.
    pub user: &'a str,
    /// The password.
    pub password: &'a [u8],
    /// The client identifier.
    pub client_id: &'a str,
    /// Whether the broker has chosen the client identifier. It is another one at each login, so it does not distinguish
    /// logins.
    pub is_assigned: bool,
    /// The client's address.
    pub address: Option<IpAddr>,
}

/// Why the service did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The service was not asked.
    Refused(Refusal),
    /// The service did not answer in time, or not as expected.
    Unavailable,
}

/// A waiting login.
struct Job {
    body: Vec<u8>,
    answer: u64,
    deadline: Duration,
    reply: oneshot::Sender<Result<bool, Undecided>>,
}

#[derive(Default)]
struct Workers {
    running: usize,
    idle: Vec<oneshot::Sender<()>>,
}

impl CallOuts {
    /// A service at this endpoint.
    pub fn new(endpoint: Endpoint, options: CallOutOptions) -> Self {
        Self(Arc::new(Shared {
            endpoint,
            options,
            logins: Logins::default(),
            keys: RandomState::new(),
            answers: Mutex::default(),
            workers: Mutex::default(),
            log: Mutex::default(),
        }))
    }

    /// Whether a client may log in. Wrong logins lock out, as those of the password file do. `client` is the address as
    /// a key: see [`phalanx_guard::client`].
    ///
    /// # Errors
    /// The reason why that is unknown.
    pub async fn verify(
        &self,
        candidate: Candidate<'_>,
        client: u64,
        fetcher: &Fetcher,
    ) -> Result<bool, Undecided> {
        let (own, at) = (&*self.0, now());
        let Some(body) = own.body(&candidate) else { return Ok(false) };
        let Candidate { user, password, client_id, is_assigned, address } = candidate;
        let client_id = Some(client_id).filter(|_| !is_assigned);
        let answer = own.keys.hash_one((address, user, password, client_id));
        let login = Login {
            client: own.keys.hash_one(client),
            pair: own.keys.hash_one((client, user)),
            secret: own.keys.hash_one((client, user, password, client_id)),
        };
        if let Some(allowed) = lock(&own.answers).get(answer, at) {
            let (judged, refused) = own.logins.judge(login, allowed, at);
            refuse(refused);
            return judged.map(|()| allowed).map_err(Undecided::Refused);
        }
        let (reply, received) = oneshot::shared();
        let job = Job { body, answer, deadline: at + own.options.timeout, reply };
        refuse(own.logins.enter(login, job, at));
        self.wake(fetcher);
        // The wait in the queue and the request, with the same limit. A worker may be missing.
        let decided = timeout(2 * own.options.timeout, received).await;
        decided.ok().flatten().unwrap_or(Err(Undecided::Unavailable))
    }

    /// Wakes a worker, or starts one.
    fn wake(&self, fetcher: &Fetcher) {
        let mut workers = lock(&self.0.workers);
        while let Some(idle) = workers.idle.pop() {
            if !idle.is_closed() {
                return idle.send(());
            }
        }
        if workers.running < self.0.options.max_requests {
            workers.running += 1;
            drop(workers);
            let (shared, fetcher) = (self.0.clone(), fetcher.clone());
            let stage = fetcher.stage;
            let worker = Worker { shared, fetcher, wire: None, has_left: false };
            // If the stage is full, the worker is dropped, and the login waits for another one.
            let _ = stage.dispatch(move |_| worker.run());
        }
    }
}

impl Shared {
    /// The body of a request; `None` for a password that is not a text, or credentials that are too long.
    fn body(&self, candidate: &Candidate<'_>) -> Option<Vec<u8>> {
        let Candidate { user, password, client_id, address, .. } = *candidate;
        let password = str::from_utf8(password).ok()?;
        let address = address.map(|address| address.to_canonical().to_string()).unwrap_or_default();
        let fields = [
            ("username", user),
            ("password", password),
            ("clientid", client_id),
            ("peerhost", &address),
        ];
        let body: Vec<u8> = match self.options.is_form {
            true => {
                form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish().into()
            }
            false => {
                let fields = fields.map(|(name, value)| (name.to_owned(), json!(value)));
                Value::Object(Map::from_iter(fields)).to_string().into()
            }
        };
        (body.len() <= MAX_REQUEST_BYTES).then_some(body)
    }

    /// Counts and keeps the service's answer to a login.
    fn decided(&self, login: Login, answer: u64, allowed: bool) {
        let (at, options) = (now(), &self.options);
        let lifetime = if allowed { options.allowed } else { options.denied };
        let (end, most) = (at + lifetime, options.max_answers);
        lock(&self.answers).keep(answer, (allowed, end), (at, most));
        refuse(self.logins.record_result(login, allowed, at));
    }

    /// Logs the first failure after a success, and the first success after a failure, at most every ten seconds.
    fn log(&self, failure: Option<&str>) {
        let (mut log, at) = (lock(&self.log), now());
        let is_news = log.is_failing != failure.is_some();
        if !is_news || log.written.is_some_and(|written| at < written + LOG_INTERVAL) {
            return;
        }
        *log = Log { is_failing: failure.is_some(), written: Some(at) };
        drop(log);
        match failure {
            Some(why) => eprintln!("phalanx: {}: {why}; logins are refused", self.endpoint),
            None => eprintln!("phalanx: {}: answers again", self.endpoint),
        }
    }
}

/// The last line of the log, and its time.
#[derive(Default)]
struct Log {
    is_failing: bool,
    written: Option<Duration>,
}

/// An operation that asks the service, one request at a time.
struct Worker {
    shared: Arc<Shared>,
    fetcher: Fetcher,
    wire: Option<Wire>,
    /// Whether it is not counted as running any more.
    has_left: bool,
}

impl Worker {
    async fn run(mut self) {
        let mut is_over = false;
        loop {
            while let Some((login, job)) = self.shared.logins.next(now()) {
                self.decide(login, job).await;
                is_over = false;
            }
            let Some(woken) = self.rest(is_over) else { return };
            let waited = select(select(woken, sleep(IDLE)), draining()).await;
            is_over = !matches!(waited, Either::Left(Either::Left(_)));
        }
    }

    /// Waits for the next login, unless one waits already. `None` for a worker that ends, because no login waits and it
    /// has waited long enough.
    fn rest(&mut self, is_over: bool) -> Option<oneshot::Receiver<()>> {
        let mut workers = lock(&self.shared.workers);
        let (sender, woken) = oneshot::shared();
        if !self.shared.logins.is_empty() {
            sender.send(());
        } else if is_over {
            workers.running -= 1;
            self.has_left = true;
            return None;
        } else {
            workers.idle.retain(|idle| !idle.is_closed());
            workers.idle.push(sender);
        }
        Some(woken)
    }

    async fn decide(&mut self, login: Login, job: Job) {
        // The client has disconnected.
        if job.reply.is_closed() {
            return;
        }
        if now() > job.deadline {
            return job.reply.send(Err(Undecided::Unavailable));
        }
        let asked = self.ask(&job.body).await;
        self.shared.log(asked.as_ref().err().map(String::as_str));
        let counter = if asked.is_ok() { &self.fetcher.fetched } else { &self.fetcher.failed };
        counter.add(1);
        if let Ok(allowed) = asked {
            self.shared.decided(login, job.answer, allowed);
        }
        job.reply.send(asked.map_err(|_| Undecided::Unavailable));
    }

    /// Sends a request, on the connection of the last one if that is open.
    async fn ask(&mut self, body: &[u8]) -> Result<bool, String> {
        let Shared { endpoint, options, .. } = &*self.shared;
        let (begun, limit) = (now(), IoTimeout::after(options.timeout).until_shutdown());
        let left = || limit.remaining(now().saturating_sub(begun));
        let kind =
            if options.is_form { "application/x-www-form-urlencoded" } else { "application/json" };
        let authorization = options.authorization.as_ref();
        let authorization = authorization.map(|value| format!("Authorization: {value}\r\n"));
        let fields = format!(
            "Content-Type: {kind}\r\nAccept: application/json, text/plain\r\n{}",
            authorization.unwrap_or_default()
        );
        let request = Request { method: "POST", fields: &fields, body, max_body: MAX_ANSWER_BYTES };
        let mut kept = self.wire.take();
        let (answer, wire) = loop {
            let (wire, was_kept) = match kept.take() {
                Some(wire) => (wire, true),
                None => (endpoint.connect(&self.fetcher.resolver, left()).await?, false),
            };
            match exchange(&wire, endpoint, &request, left()).await {
                Ok(answer) => break (answer, wire),
                // The server may close a connection while it is unused.
                Err(error) if was_kept && is_closed(&error) => (),
                Err(error) => return Err(error.to_string()),
            }
        };
        if answer.keep_alive {
            self.wire = Some(wire);
        }
        decision(&answer, options.authorization.is_some())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.has_left {
            lock(&self.shared.workers).running -= 1;
        }
    }
}

fn refuse(refused: Vec<(Job, Refusal)>) {
    refused.into_iter().for_each(|(job, why)| job.reply.send(Err(Undecided::Refused(why))));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
