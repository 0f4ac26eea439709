//! State shared by the operations of a run: start times of requests, and counts.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::http::requests::Requests;
use super::http::responses::Answer;
use super::http::tls::Tls;
use super::result::counts::{Counts, Failure};
use super::workload::pace::Arrivals;
use super::workload::visits::Visits;

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are made; no request starts.
    Connecting,
    /// Requests start.
    Running,
    /// No request starts; those in flight are awaited.
    Over,
}

/// Parameters of a run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    /// Configuration of TLS, if used.
    pub(crate) tls: Option<Tls>,
    pub(crate) requests: Requests,
    /// Whether to use HTTP/2.
    pub(crate) http2: bool,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) keep_alive: bool,
    /// With users: minimum pause between pages.
    pub(crate) think: Option<Duration>,
    /// Visits of pages, each of which counts as one request.
    pub(crate) visits: Option<Arc<Visits>>,
    /// Open loop: intended start times of requests.
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) timeout: Duration,
    /// After the end: time for requests that waited for a connection.
    pub(crate) finish: Duration,
}

/// One run, on its single processor.
pub(crate) struct Drive {
    pub(crate) plan: Plan,
    pub(crate) random: RefCell<fastrand::Rng>,
    epoch: Instant,
    phase: Cell<Phase>,
    /// Requests with an intended start from here on are counted.
    begin: Cell<u64>,
    /// After the end: the time until which waiting requests may still be sent.
    finished: Cell<u64>,
    /// Connections that were made, or failed, at least once.
    pub(crate) connected: Cell<usize>,
    /// Complete answers and bytes since the start of the run; read at both ends of the measured interval.
    pub(crate) answered: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
    /// Number of times a connection made progress.
    pub(crate) progress_count: Cell<u64>,
    /// Open loop: nanoseconds spent polling the clock without other work.
    pub(crate) idle_nanos: Cell<u64>,
    arrivals: RefCell<Option<Arrivals>>,
    /// Open loop: intended start times of requests not yet assigned to a connection. Unbounded, like the users it
    /// models; its length is reported.
    backlog: RefCell<VecDeque<u64>>,
    /// Idle connections, the longest idle first.
    idle: RefCell<VecDeque<Waker>>,
    counts: RefCell<Counts>,
    report: Sender<(Counts, u64)>,
}

impl Drive {
    pub(crate) fn new(plan: Plan, random: fastrand::Rng, report: Sender<(Counts, u64)>) -> Self {
        Self {
            arrivals: RefCell::new(plan.arrivals.clone()),
            plan,
            random: RefCell::new(random),
            epoch: Instant::now(),
            phase: Cell::new(Phase::Connecting),
            begin: Cell::new(u64::MAX),
            finished: Cell::default(),
            connected: Cell::default(),
            answered: Cell::default(),
            bytes: Cell::default(),
            progress_count: Cell::default(),
            idle_nanos: Cell::default(),
            backlog: RefCell::default(),
            idle: RefCell::default(),
            counts: RefCell::default(),
            report,
        }
    }

    /// Nanoseconds since the run was set up; the current time, not that of the cohort.
    pub(crate) fn clock(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase() == Phase::Over
    }

    /// Whether the run is over and no request waits.
    pub(crate) fn is_finished(&self) -> bool {
        let is_late = || self.clock() >= self.finished.get() || self.backlog.borrow().is_empty();
        self.is_over() && is_late()
    }

    /// Enters `phase` and wakes the connections that wait for it.
    pub(crate) fn enter(&self, phase: Phase) {
        if phase == Phase::Over {
            self.finished.set(self.clock() + self.plan.finish.as_nanos() as u64);
        }
        self.phase.set(phase);
        self.idle.take().into_iter().for_each(Waker::wake);
    }

    /// Starts the requests, from `now` on.
    pub(crate) fn run(&self, now: u64) {
        if let Some(arrivals) = self.arrivals.borrow_mut().as_mut() {
            arrivals.begin(now);
        }
        self.enter(Phase::Running);
    }

    /// Starts the measured interval; returns the current time.
    pub(crate) fn begin(&self) -> u64 {
        let now = self.clock();
        self.begin.set(now);
        now
    }

    /// Open loop: assigns the requests with an intended start up to `now` and returns the start of the next one.
    /// Closed loop: returns `None`.
    pub(crate) fn admit_arrivals(&self, now: u64) -> Option<u64> {
        let mut arrivals = self.arrivals.borrow_mut();
        let arrivals = arrivals.as_mut()?;
        while let Some(intended) = arrivals.next().filter(|next| *next <= now) {
            arrivals.step();
            self.record_progress();
            self.offer(intended);
            self.backlog.borrow_mut().push_back(intended);
            let waiting = self.idle.borrow_mut().pop_front();
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        }
        arrivals.next()
    }

    fn offer(&self, intended: u64) {
        if intended >= self.begin.get() {
            self.counts.borrow_mut().offered += 1;
        }
    }

    /// Intended start of the next request, if one may start now.
    pub(crate) fn next(&self) -> Option<u64> {
        match self.phase.get() {
            Phase::Running if self.plan.arrivals.is_some() => self.backlog.borrow_mut().pop_front(),
            Phase::Running => {
                let now = self.clock();
                self.offer(now);
                Some(now)
            }
            Phase::Over if self.clock() < self.finished.get() => {
                self.backlog.borrow_mut().pop_front()
            }
            Phase::Connecting | Phase::Over => None,
        }
    }

    /// Waits for the next request; `None` at the end of the run.
    pub(crate) async fn wait(&self) -> Option<u64> {
        poll_fn(|context: &mut Context<'_>| match self.next() {
            Some(start) => Poll::Ready(Some(start)),
            None if self.is_over() => Poll::Ready(None),
            None => {
                self.idle.borrow_mut().push_back(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Records that a connection made progress.
    pub(crate) fn record_progress(&self) {
        self.progress_count.set(self.progress_count.get() + 1);
    }

    /// Counts an answer to the request with intended start `start`, sent at `begun`.
    pub(crate) fn complete(&self, answer: Answer, start: u64, begun: u64) {
        self.answered.set(self.answered.get() + 1);
        if start >= self.begin.get() {
            let now = self.clock();
            let (latency, served) = (now.saturating_sub(start), now.saturating_sub(begun));
            self.counts.borrow_mut().complete(answer, latency, served);
        } else if self.is_over() {
            self.counts.borrow_mut().starved += 1;
        }
    }

    /// Counts the handshake of a visit that began at `start`, if it has resumed a session.
    pub(crate) fn handshake(&self, is_resumed: bool, start: u64) {
        if is_resumed && start >= self.begin.get() {
            self.counts.borrow_mut().resumed += 1;
        }
    }

    pub(crate) fn fail(&self, failure: Failure, start: u64) {
        if start >= self.begin.get() {
            self.counts.borrow_mut().fail(failure);
        } else if self.is_over() {
            self.counts.borrow_mut().starved += 1;
        }
    }

    /// Counts a failure to connect that belongs to no request.
    pub(crate) fn fail_to_connect(&self) {
        self.counts.borrow_mut().fail(Failure::Connect);
    }
}

impl Drop for Drive {
    /// Called after the last operation: the counts are final.
    fn drop(&mut self) {
        let begin = self.begin.get();
        let backlog = self.backlog.get_mut().iter().filter(|start| **start >= begin).count();
        let _ = self.report.send((self.counts.take(), backlog as u64));
    }
}
