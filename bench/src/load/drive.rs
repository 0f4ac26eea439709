//! What the operations of one run share: when to start requests, and what became of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::answers::Answer;
use super::pace::Arrivals;
use super::requests::Requests;
use super::tally::{Failure, Tally};
use super::tls::Tls;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are being made; no request starts.
    Gathering,
    /// Requests start.
    Running,
    /// No request starts any more; those under way are waited for.
    Over,
}

/// What does not change during a run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    /// How to shake hands, where that is done.
    pub(crate) tls: Option<Tls>,
    pub(crate) requests: Requests,
    /// Whether HTTP/2 is spoken.
    pub(crate) http2: bool,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) keep_alive: bool,
    /// Connections are users, who pause for this long at least between pages.
    pub(crate) think: Option<Duration>,
    /// Open loop: when requests are meant to start.
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) patience: Duration,
    /// After the end: for what has waited for a connection.
    pub(crate) finish: Duration,
}

/// One run. Lives on the one processor.
pub(crate) struct Drive {
    pub(crate) plan: Plan,
    pub(crate) random: RefCell<fastrand::Rng>,
    epoch: Instant,
    phase: Cell<Phase>,
    /// Requests meant to start from here on are tallied.
    begin: Cell<u64>,
    /// Once it is over: until when there may be requests all the same.
    finished: Cell<u64>,
    /// Connections that were made, or failed to be, at least once.
    pub(crate) gathered: Cell<usize>,
    /// Whole answers, and bytes, since the run began; read at both ends of the measured time.
    pub(crate) answered: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
    /// How often a connection went on.
    pub(crate) stirs: Cell<u64>,
    /// Open loop: nanoseconds in which the clock was looked at and nothing else to do.
    pub(crate) idled: Cell<u64>,
    arrivals: RefCell<Option<Arrivals>>,
    /// Open loop: when requests were meant to start that no connection has taken yet. Unbounded, as
    /// the users that it stands for are; reported.
    backlog: RefCell<VecDeque<u64>>,
    /// Connections with nothing to do, who has waited longest first.
    idle: RefCell<VecDeque<Waker>>,
    tally: RefCell<Tally>,
    report: Sender<(Tally, u64)>,
}

impl Drive {
    pub(crate) fn new(plan: Plan, random: fastrand::Rng, report: Sender<(Tally, u64)>) -> Self {
        Self {
            arrivals: RefCell::new(plan.arrivals.clone()),
            plan,
            random: RefCell::new(random),
            epoch: Instant::now(),
            phase: Cell::new(Phase::Gathering),
            begin: Cell::new(u64::MAX),
            finished: Cell::default(),
            gathered: Cell::default(),
            answered: Cell::default(),
            bytes: Cell::default(),
            stirs: Cell::default(),
            idled: Cell::default(),
            backlog: RefCell::default(),
            idle: RefCell::default(),
            tally: RefCell::default(),
            report,
        }
    }

    /// Nanoseconds since the run was set up, now and not when the cohort began.
    pub(crate) fn clock(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase() == Phase::Over
    }

    /// And nothing is left to be asked.
    pub(crate) fn is_finished(&self) -> bool {
        let is_late = || self.clock() >= self.finished.get() || self.backlog.borrow().is_empty();
        self.is_over() && is_late()
    }

    /// Goes on to `phase`, and tells the connections that wait for it.
    pub(crate) fn enter(&self, phase: Phase) {
        if phase == Phase::Over {
            self.finished.set(self.clock() + self.plan.finish.as_nanos() as u64);
        }
        self.phase.set(phase);
        self.idle.take().into_iter().for_each(Waker::wake);
    }

    /// Requests start, from `now` on.
    pub(crate) fn run(&self, now: u64) {
        if let Some(arrivals) = self.arrivals.borrow_mut().as_mut() {
            arrivals.begin(now);
        }
        self.enter(Phase::Running);
    }

    /// From now on it counts; says what time that is.
    pub(crate) fn begin(&self) -> u64 {
        let now = self.clock();
        self.begin.set(now);
        now
    }

    /// Open loop: hands out the requests that were meant to start by `now`, and says when the next
    /// one is. Closed loop: there is none.
    pub(crate) fn let_arrive(&self, now: u64) -> Option<u64> {
        let mut arrivals = self.arrivals.borrow_mut();
        let arrivals = arrivals.as_mut()?;
        while let Some(intended) = arrivals.next().filter(|next| *next <= now) {
            arrivals.step();
            self.stir();
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
            self.tally.borrow_mut().offered += 1;
        }
    }

    /// When the next request is meant to start, if there is one now.
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
            Phase::Gathering | Phase::Over => None,
        }
    }

    /// Waits for the next request to start; `None` when there will be none.
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

    /// A connection goes on: the load has something to do.
    pub(crate) fn stir(&self) {
        self.stirs.set(self.stirs.get() + 1);
    }

    /// A request meant to start at `start`, which a connection took up when it had `begun`.
    pub(crate) fn complete(&self, answer: Answer, start: u64, begun: u64) {
        self.answered.set(self.answered.get() + 1);
        if start >= self.begin.get() {
            let now = self.clock();
            let (latency, served) = (now.saturating_sub(start), now.saturating_sub(begun));
            self.tally.borrow_mut().complete(answer, latency, served);
        } else if self.is_over() {
            self.tally.borrow_mut().starved += 1;
        }
    }

    pub(crate) fn fail(&self, failure: Failure, start: u64) {
        if start >= self.begin.get() {
            self.tally.borrow_mut().fail(failure);
        } else if self.is_over() {
            self.tally.borrow_mut().starved += 1;
        }
    }

    /// A connection that is made for no request in particular could not be made.
    pub(crate) fn fail_to_connect(&self) {
        self.tally.borrow_mut().fail(Failure::Connect);
    }
}

impl Drop for Drive {
    /// The last operation is gone: whatever was counted is final.
    fn drop(&mut self) {
        let begin = self.begin.get();
        let backlog = self.backlog.get_mut().iter().filter(|start| **start >= begin).count();
        let _ = self.report.send((self.tally.take(), backlog as u64));
    }
}
