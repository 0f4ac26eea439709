//! A connection with HTTP/2, which many requests of one processor use at the same time.
//!
//! An operation of the stage `upstream` dials and then moves the bytes. It ends when the pool and all requests have
//! dropped the connection, or the server has closed it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::sync::Notify;
use phalanx::task::Either;
use phalanx::time::{now, timeout};
use phalanx::{SharedStage, select};

use crate::upstream::counters::UpstreamCounters;
use crate::upstream::group::Group;
use crate::upstream::health::is_exhausted;
use crate::upstream::local::Local;
use crate::upstream::multiplexed::connect::{Driver, MAX_STREAMS, Sender, connect};

/// A connection of one processor to one server.
pub(crate) struct Multiplexed {
    state: RefCell<State>,
    /// Requests that wait until it is open.
    waiting: RefCell<Vec<Waker>>,
    /// Requests that use it, or wait for it.
    requests: Cell<usize>,
    /// Requests that the server probably accepts at a time; only used until it is open.
    expected: usize,
    /// Time since which no request uses it.
    unused_since: Cell<Duration>,
    /// Notified when it is dropped.
    dropped: Rc<Notify>,
}

enum State {
    Dialing,
    Open(Sender),
    /// It could not be opened.
    Failed(Rc<io::Error>),
    /// It accepts no further requests. Those in progress may continue.
    Retired,
}

/// How to dial.
pub(in crate::upstream) struct Dial<'a> {
    pub(in crate::upstream) stage: SharedStage<()>,
    pub(in crate::upstream) group: &'a Arc<Group>,
    pub(in crate::upstream) member: usize,
    pub(in crate::upstream) resolver: Resolver,
    pub(in crate::upstream) counters: &'a UpstreamCounters,
    pub(in crate::upstream) limit: Duration,
}

impl Multiplexed {
    /// Starts to dial a server that probably accepts `expected` requests at a time.
    ///
    /// # Errors
    /// If the operation limit is reached.
    pub(in crate::upstream) fn dial(dial: Dial<'_>, expected: usize) -> io::Result<Rc<Self>> {
        let Dial { stage, group, member, resolver, counters, limit } = dial;
        let dropped = Rc::new(Notify::default());
        let made = Rc::new(Self {
            state: RefCell::new(State::Dialing),
            waiting: RefCell::default(),
            requests: Cell::new(0),
            expected,
            unused_since: Cell::new(now()),
            dropped: dropped.clone(),
        });
        let connection = Rc::downgrade(&made);
        let (group, counters) = (group.clone(), counters.clone());
        let run = move |_| async move {
            let dialing = run(&connection, &group, member, (resolver, &counters), limit);
            // Boxed, so that a connection in use does not keep the memory of a handshake.
            let Either::Left(open) = select(Box::pin(dialing), pin!(dropped.notified())).await
            else {
                return;
            };
            drop((group, counters));
            if let Some(mut driver) = open {
                // The requests get the errors.
                let _ = Pin::new(&mut driver).await;
                if let Some(connection) = connection.upgrade() {
                    connection.retire();
                }
            }
        };
        stage.dispatch(run).map_err(|_| rustix::io::Errno::NOMEM)?;
        Ok(made)
    }

    /// Changes the state, and wakes the requests that wait.
    fn set(&self, state: State) {
        let before = self.state.replace(state);
        drop(before);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Gives it no further requests.
    pub(in crate::upstream) fn retire(&self) {
        if !matches!(*self.state.borrow(), State::Failed(_)) {
            self.set(State::Retired);
        }
    }

    /// Whether it accepts another request, now or when it is open.
    pub(in crate::upstream) fn has_room(&self) -> bool {
        let room = match &*self.state.borrow() {
            State::Dialing => self.expected,
            State::Open(sender) => room(sender),
            State::Failed(_) | State::Retired => 0,
        };
        self.requests.get() < room
    }

    /// Whether requests can use it now.
    pub(in crate::upstream) fn is_open(&self) -> bool {
        matches!(*self.state.borrow(), State::Open(_))
    }

    /// Whether the pool drops it: it accepts no further requests.
    pub(in crate::upstream) fn has_ended(&self) -> bool {
        match &*self.state.borrow() {
            State::Dialing => false,
            State::Open(sender) => room(sender) == 0,
            State::Failed(_) | State::Retired => true,
        }
    }

    /// Whether no request uses it.
    pub(in crate::upstream) fn is_unused(&self) -> bool {
        self.requests.get() == 0
    }

    /// Whether no request has used it for `limit`.
    pub(in crate::upstream) fn has_expired(&self, now: Duration, limit: Duration) -> bool {
        self.is_unused() && now.saturating_sub(self.unused_since.get()) >= limit
    }

    /// Waits until it is open. Returns the number of requests that it accepts at a time.
    ///
    /// # Errors
    /// The reason if it cannot be opened; `None` if it cannot take this request, so another connection should.
    pub(in crate::upstream) async fn opened(&self) -> Result<usize, Option<Rc<io::Error>>> {
        poll_fn(|context| match &*self.state.borrow() {
            State::Dialing => {
                self.register(context);
                Poll::Pending
            }
            // The server may accept fewer requests than wait.
            State::Open(sender) => Poll::Ready(match room(sender) {
                room if self.requests.get() <= room => Ok(room),
                _ => Err(None),
            }),
            State::Retired => Poll::Ready(Err(None)),
            State::Failed(error) => Poll::Ready(Err(Some(error.clone()))),
        })
        .await
    }

    fn register(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// For a request; `None` if it has ended.
    fn sender(&self) -> Option<Sender> {
        match &*self.state.borrow() {
            State::Open(sender) => Some(sender.clone()),
            _ => None,
        }
    }
}

impl Drop for Multiplexed {
    fn drop(&mut self) {
        self.dropped.notify();
    }
}

/// Number of requests that may use a connection at the same time; zero if it has ended.
fn room(sender: &Sender) -> usize {
    // After GOAWAY, or the end of the connection, this is an error.
    let ready = sender.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
    match ready {
        Poll::Ready(Err(_)) => 0,
        _ => sender.current_max_send_streams().min(MAX_STREAMS),
    }
}

/// Dials for `connection`. Returns the future that moves its bytes, or `None` if it cannot be opened.
async fn run(
    connection: &Weak<Multiplexed>,
    group: &Arc<Group>,
    member: usize,
    (resolver, counters): (Resolver, &UpstreamCounters),
    limit: Duration,
) -> Option<Driver> {
    let member = &group.members[member];
    let dialed = timeout(limit, connect(&resolver, member, IoTimeout::after(limit))).await;
    let connection = connection.upgrade()?;
    match dialed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok((sender, driver)) => {
            counters.connection();
            connection.set(State::Open(sender));
            Some(driver)
        }
        Err(error) => {
            if !is_exhausted(&error) {
                let is_ejected = member.health.failed(now());
                counters.failed(&member.upstream, is_ejected, &error.to_string());
            }
            connection.set(State::Failed(Rc::new(error)));
            None
        }
    }
}

/// A request's use of a connection. Dropping it leaves the connection to others.
pub(crate) struct Claim {
    connection: Rc<Multiplexed>,
    local: Rc<Local>,
    member: usize,
    /// Whether the connection was open before.
    pub(in crate::upstream) is_reused: bool,
}

impl Claim {
    pub(in crate::upstream) fn new(
        connection: Rc<Multiplexed>,
        local: &Rc<Local>,
        member: usize,
    ) -> Self {
        connection.requests.set(connection.requests.get() + 1);
        let is_reused = connection.is_open();
        Self { connection, local: local.clone(), member, is_reused }
    }

    pub(in crate::upstream) fn connection(&self) -> &Multiplexed {
        &self.connection
    }

    /// Starts requests; `None` if the connection has ended.
    pub(crate) fn sender(&self) -> Option<Sender> {
        self.connection.sender()
    }

    /// Gives the connection no further requests.
    pub(crate) fn retire(&self) {
        self.connection.retire();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.connection.requests.set(self.connection.requests.get() - 1);
        self.connection.unused_since.set(now());
        self.local.trim(self.member);
    }
}
