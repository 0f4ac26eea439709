//! The connections of one processor, and the queries that wait for them.
//!
//! A connection is an operation. It is started when queries wait and all others are busy, and stays connected until
//! its server or the program ends. While the server cannot be reached, attempts have growing pauses between them, and
//! queries fail that have waited for too long without any connection.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::is_draining;
use phalanx::stage::Cohort;
use phalanx::sync::Notify;
use phalanx::task::Either;
use phalanx::time::{now, sleep};
use phalanx::{SharedStage, select};

use crate::config::Config;
use crate::connection::session::Session;
use crate::error::{Error, Fault};
use crate::queue::{Answer, Query, Queue, Times};

/// The first pause between two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The connections of one processor.
pub(crate) struct Pool {
    pub(crate) config: Arc<Config>,
    /// The stage of the connections' operations.
    pub(crate) stage: SharedStage<()>,
    pub(crate) queue: RefCell<Queue>,
    /// The connections that wait for queries.
    idle: RefCell<Vec<Rc<Notify>>>,
    /// The number of operations that are or become connections.
    running: Cell<usize>,
    /// The number of connections that are open.
    open: Cell<usize>,
    /// When the last of them has ended, and the time before in which there was none.
    closed: Cell<Duration>,
    offline: Cell<Duration>,
    /// The end of the current pause.
    next_attempt: Cell<Duration>,
    pause: Cell<Duration>,
    /// Why the last attempt failed.
    last_fault: RefCell<Arc<str>>,
}

impl Pool {
    pub(crate) fn new(config: Arc<Config>, stage: SharedStage<()>) -> Rc<Self> {
        Rc::new(Self {
            config,
            stage,
            queue: RefCell::default(),
            idle: RefCell::default(),
            running: Cell::new(0),
            open: Cell::new(0),
            closed: Cell::new(Duration::ZERO),
            offline: Cell::new(Duration::ZERO),
            next_attempt: Cell::new(Duration::ZERO),
            pause: Cell::new(FIRST_PAUSE),
            last_fault: RefCell::new(
                "the server has not answered the first attempt to connect".into(),
            ),
        })
    }

    /// Queues a cohort of queries.
    pub(crate) fn enqueue(self: &Rc<Self>, cohort: &mut Cohort<Query, Answer>) {
        let times = Times { queued: now(), offline: self.offline() };
        for (query, reply) in cohort.drain() {
            self.queue.borrow_mut().push(query, reply, times, &self.config);
        }
        self.wake();
    }

    /// Wakes or starts a connection if queries wait.
    pub(crate) fn wake(self: &Rc<Self>) {
        if self.queue.borrow().is_empty() {
            return;
        }
        if self.wake_idle() {
            return;
        }
        if self.running.get() == self.config.connections {
            return;
        }
        self.running.set(self.running.get() + 1);
        let pool = self.clone();
        let started = self.stage.dispatch(move |_| {
            let running = Running(pool);
            async move { running.0.serve().await }
        });
        if let Err(rejected) = started {
            self.running.set(self.running.get() - 1);
            if self.running.get() == 0 {
                self.fail_older(Duration::MAX, |_| rejected.clone().into());
            }
        }
    }

    /// Wakes an idle connection if queries wait, such as those of a connection that has ended. Returns whether it did.
    fn wake_idle(&self) -> bool {
        if self.queue.borrow().is_empty() {
            return false;
        }
        let idle = self.idle.borrow_mut().pop();
        idle.inspect(|idle| idle.notify()).is_some()
    }

    /// Runs a connection while queries wait, and then until the connection ends.
    async fn serve(self: &Rc<Self>) {
        while self.pause_before_attempt().await {
            let ended = match select(Session::open(self), self.expire()).await {
                Either::Left(Ok(session)) => {
                    let _open = Open::new(self);
                    session.run().await.map_err(|fault| (fault.is_permanent(true), fault))
                }
                Either::Left(Err(fault)) => Err((fault.is_permanent(false), fault)),
                Either::Right(never) => match never {},
            };
            self.wake_idle();
            if let Err((is_permanent, fault)) = ended {
                self.failed(&fault, is_permanent);
            }
        }
    }

    /// Fails queries when they have waited for too long, while a connection is opened.
    async fn expire(&self) -> Infallible {
        loop {
            // A query that arrives during the pause has the whole time.
            let expires = self.expires().unwrap_or(self.config.queue_timeout);
            // No time counts while another connection is open.
            let shortest = if self.open.get() > 0 { LONGEST_PAUSE } else { FIRST_PAUSE };
            sleep(expires.max(shortest)).await;
            self.fail_expired();
        }
    }

    /// The time without any connection after which the oldest query fails. None if no query waits.
    fn expires(&self) -> Option<Duration> {
        let oldest = self.queue.borrow().oldest()?;
        Some(oldest.saturating_add(self.config.queue_timeout).saturating_sub(self.offline()))
    }

    /// Waits until it is time for an attempt to connect. Returns false if no query waits.
    async fn pause_before_attempt(&self) -> bool {
        loop {
            let Some(expires) = self.expires() else { return false };
            let (now, until) = (now(), self.next_attempt.get());
            if until <= now {
                return true;
            }
            let pause = until - now;
            // Queries can wait as long as another connection serves them.
            let is_online = self.open.get() > 0;
            sleep(if is_online { pause } else { pause.min(expires) }).await;
            self.fail_expired();
        }
    }

    /// Begins a pause after a failed attempt. If the next one must fail, too, no query waits for it.
    fn failed(&self, fault: &Fault, is_permanent: bool) {
        let pause = self.pause.get();
        self.next_attempt.set(now() + pause);
        self.pause.set((pause * 2).min(LONGEST_PAUSE));
        *self.last_fault.borrow_mut() = fault.to_string().into();
        if self.open.get() == 0 && (is_permanent || is_draining()) {
            self.fail_unavailable(Duration::MAX);
        } else {
            self.fail_expired();
        }
    }

    /// Records that a connection works.
    pub(crate) fn reset_failures(&self) {
        self.pause.set(FIRST_PAUSE);
    }

    /// The time without any connection.
    fn offline(&self) -> Duration {
        match self.open.get() {
            0 => self.offline.get() + (now() - self.closed.get()),
            _ => self.offline.get(),
        }
    }

    fn fail_expired(&self) {
        if self.open.get() == 0
            && let Some(time) = self.offline().checked_sub(self.config.queue_timeout)
        {
            self.fail_unavailable(time);
        }
    }

    /// Fails the queries that were queued at this offline time or before with the last attempt's reason.
    fn fail_unavailable(&self, time: Duration) {
        let (now, reason) = (now(), self.last_fault.borrow().clone());
        self.fail_older(time, |times| Error::Unavailable {
            waited: now - times.queued,
            reason: reason.clone(),
        });
    }

    /// Fails the queries that were queued at this offline time or before.
    fn fail_older(&self, time: Duration, error: impl Fn(Times) -> Error) {
        let old = self.queue.borrow_mut().take_older(time);
        for pending in old {
            pending.reply.send(Err(error(pending.times)));
        }
    }

    /// Lists a connection as idle while the returned guard exists.
    pub(crate) fn idle(&self, signal: &Rc<Notify>) -> Idle<'_> {
        self.idle.borrow_mut().push(signal.clone());
        Idle { pool: self, signal: signal.clone() }
    }
}

/// A connection's place in the list of idle ones.
pub(crate) struct Idle<'p> {
    pool: &'p Pool,
    signal: Rc<Notify>,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.pool.idle.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.signal));
    }
}

/// A connection that is open.
struct Open<'p>(&'p Pool);

impl<'p> Open<'p> {
    fn new(pool: &'p Pool) -> Self {
        pool.offline.set(pool.offline());
        pool.open.set(pool.open.get() + 1);
        Self(pool)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.closed.set(now());
    }
}

/// A running connection. When it ends, also by a panic, the queries that are left get another one.
struct Running(Rc<Pool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        self.0.wake();
    }
}
