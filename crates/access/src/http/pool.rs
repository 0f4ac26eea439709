//! Workers that send requests to a service.
//!
//! Requests wait in a queue, and workers take them. A worker is an operation with its own connection; it starts when
//! requests wait, and ends after a few seconds without a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::runtime::report;
use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::{now, timeout};
use phalanx::{select, sleep};
use phalanx_guard::Refusal;
use phalanx_tls::Wire;
use serde_json::{Map, Value, json};

use super::decision::decision;
use super::{Endpoint, Fetcher, Request, exchange, is_closed};

/// Maximum size of a request's body, in bytes: about 2,000 of them may wait.
const MAX_REQUEST_BYTES: usize = 32 * 1024;

/// Maximum size of the service's answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Time after which a worker without requests ends, and closes its connection.
const IDLE: Duration = Duration::from_secs(4);

/// Minimum time between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The value of a field in the body of a request.
#[derive(Clone, Copy)]
pub(super) enum Field<'a> {
    Text(&'a str),
    Number(u32),
}

/// How to send requests to the service, and how long to cache its answers.
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
    /// Maximum number of cached answers; beyond it, those that expire first are dropped.
    pub max_answers: usize,
}

impl CallOutOptions {
    /// The lifetime of an answer.
    pub(super) fn lifetime(&self, allowed: bool) -> Duration {
        if allowed { self.allowed } else { self.denied }
    }
}

/// The error of a call-out that returned no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutError {
    /// The service was not asked.
    Refused(Refusal),
    /// The service did not answer in time, or not as expected.
    Unavailable,
}

/// A waiting request.
pub(super) struct Job {
    pub(super) body: Vec<u8>,
    /// The cache key of its answer.
    pub(super) answer: u64,
    pub(super) deadline: Duration,
    pub(super) reply: oneshot::Sender<Result<bool, CallOutError>>,
}

/// Waiting requests.
pub(super) trait Queue: Send + Sync + 'static {
    /// Data of the queue about a request.
    type Tag;

    fn next(&self, at: Duration) -> Option<(Self::Tag, Job)>;

    fn is_empty(&self) -> bool;

    /// Counts and caches the service's answer.
    fn record_decision(&self, tag: Self::Tag, answer: u64, allowed: bool, options: &CallOutOptions);
}

/// A service, the requests that wait for it, and the workers that send them.
pub(super) struct Pool<Q> {
    endpoint: Endpoint,
    pub(super) options: CallOutOptions,
    pub(super) queue: Q,
    workers: Mutex<Workers>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Workers {
    running: usize,
    idle: Vec<oneshot::Sender<()>>,
}

impl<Q: Queue> Pool<Q> {
    pub(super) fn new(endpoint: Endpoint, options: CallOutOptions, queue: Q) -> Arc<Self> {
        let (workers, log) = (Mutex::default(), Mutex::default());
        Arc::new(Self { endpoint, options, queue, workers, log })
    }

    /// Waits for the answer to a request that `enter` puts into the queue.
    pub(super) async fn ask(
        self: &Arc<Self>,
        (body, answer): (Vec<u8>, u64),
        fetcher: &Fetcher,
        enqueue: impl FnOnce(&Q, Job),
    ) -> Result<bool, CallOutError> {
        let (reply, received) = oneshot::shared();
        let deadline = now() + self.options.timeout;
        enqueue(&self.queue, Job { body, answer, deadline, reply });
        self.wake(fetcher);
        // The wait in the queue and the request have the same limit. This timeout also ends the wait if no worker could
        // be started.
        let decision = timeout(2 * self.options.timeout, received).await;
        decision.ok().flatten().unwrap_or(Err(CallOutError::Unavailable))
    }

    /// The body of a request with these fields; `None` if it is too long.
    pub(super) fn body(&self, fields: &[(&str, Field<'_>)]) -> Option<Vec<u8>> {
        let body: Vec<u8> = match self.options.is_form {
            true => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                for (name, value) in fields {
                    match value {
                        Field::Text(text) => form.append_pair(name, text),
                        Field::Number(number) => form.append_pair(name, &number.to_string()),
                    };
                }
                form.finish().into()
            }
            false => {
                let fields = fields.iter().map(|(name, value)| {
                    let value = match value {
                        Field::Text(text) => json!(text),
                        Field::Number(number) => json!(number),
                    };
                    ((*name).to_owned(), value)
                });
                Value::Object(Map::from_iter(fields)).to_string().into()
            }
        };
        (body.len() <= MAX_REQUEST_BYTES).then_some(body)
    }

    /// Wakes a worker, or starts one.
    fn wake(self: &Arc<Self>, fetcher: &Fetcher) {
        let mut workers = lock(&self.workers);
        while let Some(idle) = workers.idle.pop() {
            if !idle.is_closed() {
                return idle.send(());
            }
        }
        if workers.running < self.options.max_requests {
            workers.running += 1;
            drop(workers);
            let (pool, fetcher) = (self.clone(), fetcher.clone());
            let stage = fetcher.stage;
            let worker = Worker { pool, fetcher, wire: None, has_ended: false };
            // If the stage is full, the worker is dropped, and the request waits for another one.
            let _ = stage.dispatch(move |_| worker.run());
        }
    }

    /// Logs the first failure after a success, and the first success after a failure, at most every ten seconds.
    /// Requests ended by a shutdown are not failures of the service.
    fn log(&self, failure: Option<&str>) {
        let (mut log, at) = (lock(&self.log), now());
        let is_change = log.is_failing != failure.is_some();
        if !is_change
            || is_draining()
            || log.written.is_some_and(|written| at < written + LOG_INTERVAL)
        {
            return;
        }
        *log = Log { is_failing: failure.is_some(), written: Some(at) };
        drop(log);
        match failure {
            Some(reason) => {
                report(format_args!("{}: {reason}; requests are refused", self.endpoint))
            }
            None => report(format_args!("{}: answers again", self.endpoint)),
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
struct Worker<Q: Queue> {
    pool: Arc<Pool<Q>>,
    fetcher: Fetcher,
    wire: Option<Wire>,
    /// Whether it is no longer counted as running.
    has_ended: bool,
}

impl<Q: Queue> Worker<Q> {
    async fn run(mut self) {
        let mut is_idle = false;
        loop {
            while let Some((tag, job)) = self.pool.queue.next(now()) {
                self.answer_job(tag, job).await;
                is_idle = false;
            }
            let Some(wakeup) = self.wait_for_request(is_idle) else { return };
            let event = select(select(wakeup, sleep(IDLE)), draining()).await;
            is_idle = !matches!(event, Either::Left(Either::Left(_)));
        }
    }

    /// Registers to wait for the next request, unless one is waiting already. Returns `None` if the worker ends,
    /// because it has waited long enough.
    fn wait_for_request(&mut self, is_idle: bool) -> Option<oneshot::Receiver<()>> {
        let mut workers = lock(&self.pool.workers);
        let (sender, wakeup) = oneshot::shared();
        if !self.pool.queue.is_empty() {
            sender.send(());
        } else if is_idle {
            workers.running -= 1;
            self.has_ended = true;
            return None;
        } else {
            workers.idle.retain(|idle| !idle.is_closed());
            workers.idle.push(sender);
        }
        Some(wakeup)
    }

    async fn answer_job(&mut self, tag: Q::Tag, job: Job) {
        // The client has disconnected.
        if job.reply.is_closed() {
            return;
        }
        if now() > job.deadline {
            return job.reply.send(Err(CallOutError::Unavailable));
        }
        let decision = self.ask(&job.body).await;
        self.pool.log(decision.as_ref().err().map(String::as_str));
        let counter = if decision.is_ok() { &self.fetcher.fetched } else { &self.fetcher.failed };
        counter.add(1);
        if let Ok(allowed) = decision {
            self.pool.queue.record_decision(tag, job.answer, allowed, &self.pool.options);
        }
        job.reply.send(decision.map_err(|_| CallOutError::Unavailable));
    }

    /// Sends a request, on the connection of the last one if it is open.
    async fn ask(&mut self, body: &[u8]) -> Result<bool, String> {
        let Pool { endpoint, options, .. } = &*self.pool;
        let (start, limit) = (now(), IoTimeout::after(options.timeout).until_shutdown());
        let remaining = || limit.remaining(now().saturating_sub(start));
        let kind =
            if options.is_form { "application/x-www-form-urlencoded" } else { "application/json" };
        let authorization = options.authorization.as_ref();
        let authorization = authorization.map(|value| format!("Authorization: {value}\r\n"));
        let fields = format!(
            "Content-Type: {kind}\r\nAccept: application/json, text/plain\r\n{}",
            authorization.unwrap_or_default()
        );
        let request = Request { method: "POST", fields: &fields, body, max_body: MAX_ANSWER_BYTES };
        let mut pooled = self.wire.take();
        let (answer, wire) = loop {
            let (wire, is_reused) = match pooled.take() {
                Some(wire) => (wire, true),
                None => (endpoint.connect(&self.fetcher.resolver, remaining()).await?, false),
            };
            match exchange(&wire, endpoint, &request, remaining()).await {
                Ok(answer) => break (answer, wire),
                // The server may have closed the unused connection; try again on a new one.
                Err(error) if is_reused && is_closed(&error) => (),
                Err(error) => return Err(error.to_string()),
            }
        };
        if answer.keep_alive {
            self.wire = Some(wire);
        }
        decision(&answer, options.authorization.is_some())
    }
}

impl<Q: Queue> Drop for Worker<Q> {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.pool.workers).running -= 1;
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
