//! Operations that wait for I/O: the table between a processor's driver and its operations.
//!
//! An operation that awaits I/O hands its request, buffers included, to the driver and leaves its
//! waker here. When the operation goes away first (its session was ended, a timeout dropped it), the
//! request is cancelled but stays here until the driver has answered: only then are its buffers
//! freed, and only then is the session's end complete.
//!
//! How long a request may take is a number in its entry here, not a timer: a server limits every
//! wait and hardly ever reaches a limit. When the earliest limit that was seen has passed, one look
//! over the table finds what has expired and cancels it.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use phalanx_core::{Hold, Session, load_ahead, now};
use phalanx_driver::{Completion, Done, Driver, Request, Socket, Token};
use slab::Slab;

use crate::blocking::Pools;
use crate::draining::Drained;
use crate::ended::Left;

/// A processor's driver and what is in flight on it.
pub(crate) struct Io {
    driver: RefCell<Box<dyn Driver>>,
    flights: RefCell<Slab<Flight>>,
    completed: RefCell<Vec<Completion>>,
    /// Operations that want to know when the program drains.
    pub(crate) draining: RefCell<Slab<Waker>>,
    pub(crate) told_draining: Cell<bool>,
    /// No request expires before this.
    earliest: Cell<Duration>,
    /// Operations of the runtime's own, apart from their callers' sessions.
    pub(crate) apart: OnceCell<Session>,
    /// The pools of blocking stages that were used here.
    pub(crate) pools: RefCell<Pools>,
}

/// How long to wait for I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    limit: Duration,
    ends_with_drain: bool,
}

impl Patience {
    /// Wait for ever.
    pub const ENDLESS: Self = Self { limit: Duration::MAX, ends_with_drain: false };

    /// Wait for at most `limit`; then the I/O fails with
    /// [`TimedOut`](std::io::ErrorKind::TimedOut). It counts from the time of the running cohort
    /// ([`now`](crate::now)), and is looked at every tenth of a second.
    pub const fn limit(limit: Duration) -> Self {
        Self { limit, ends_with_drain: false }
    }

    /// How long that is; [`Duration::MAX`] is for ever.
    pub const fn duration(self) -> Duration {
        self.limit
    }

    /// What is left of it when `elapsed` of it has passed: for several waits under one limit. Never
    /// less than nothing, and all of it where there is no limit.
    ///
    /// ```
    /// use phalanx::Patience;
    /// use std::time::Duration;
    ///
    /// let [one, two, three] = [1, 2, 3].map(Duration::from_secs);
    /// assert_eq!(Patience::limit(three).after(one), Patience::limit(two));
    /// assert_eq!(Patience::limit(one).after(two), Patience::limit(Duration::ZERO));
    /// assert_eq!(Patience::ENDLESS.after(one), Patience::ENDLESS);
    /// ```
    #[must_use]
    pub const fn after(self, elapsed: Duration) -> Self {
        match self.limit {
            Duration::MAX => self,
            limit => Self { limit: limit.saturating_sub(elapsed), ..self },
        }
    }

    /// And no longer than until the program drains; then the I/O fails with an error that
    /// [`Drained::caused`](crate::Drained::caused) recognises. For connections that are idle.
    #[must_use]
    pub const fn or_drain(self) -> Self {
        Self { ends_with_drain: true, ..self }
    }
}

/// Fewer requests than this are all in the cache, with the operations that wait for them.
const MANY: usize = 512;

/// Expired requests are looked for at most this often.
const LOOK: Duration = Duration::from_millis(100);

struct Flight {
    state: State,
    expires: Duration,
    ends_with_drain: bool,
    /// Why it was cancelled from here, if it was.
    cancelled: Option<Cause>,
    /// Keeps the session's end waiting while the kernel has the buffers.
    _hold: Option<Hold>,
}

/// Why a request was cancelled from here.
#[derive(Clone, Copy)]
enum Cause {
    Expired,
    Drained,
}

impl From<Cause> for io::Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Expired => io::ErrorKind::TimedOut.into(),
            Cause::Drained => Drained.into(),
        }
    }
}

enum State {
    Waiting(Waker),
    Done(io::Result<Done>),
    /// Nobody waits any more.
    Abandoned,
}

thread_local! {
    static IO: RefCell<Option<Rc<Io>>> = const { RefCell::new(None) };
}

/// Runs `f` with this processor's I/O.
///
/// # Panics
/// Outside of a runtime's processor.
#[track_caller]
pub(crate) fn with<R>(f: impl FnOnce(&Io) -> R) -> R {
    IO.with_borrow(|io| f(io.as_ref().expect("I/O belongs to operations of a running Runtime")))
}

/// As [`with`], but none outside of a processor: for destructors.
pub(crate) fn try_with<R>(f: impl FnOnce(&Io) -> R) -> Option<R> {
    IO.try_with(|io| io.borrow().as_deref().map(f)).ok().flatten()
}

impl Io {
    pub(crate) fn new(driver: Box<dyn Driver>) -> Rc<Self> {
        Rc::new(Self {
            driver: RefCell::new(driver),
            flights: RefCell::default(),
            completed: RefCell::default(),
            draining: RefCell::default(),
            told_draining: Cell::new(false),
            earliest: Cell::new(Duration::MAX),
            apart: OnceCell::new(),
            pools: RefCell::default(),
        })
    }

    /// Makes this the thread's I/O.
    pub(crate) fn install(self: &Rc<Self>) {
        IO.set(Some(self.clone()));
    }

    /// The thread has no I/O any more.
    pub(crate) fn uninstall() {
        drop(IO.take());
    }

    pub(crate) fn driver<R>(&self, f: impl FnOnce(&mut dyn Driver) -> R) -> R {
        f(&mut **self.driver.borrow_mut())
    }

    /// Wakes the operations whose requests were answered. Says how many there were.
    pub(crate) fn reap(&self) -> io::Result<usize> {
        let mut completed = self.completed.take();
        self.driver.borrow_mut().reap(&mut completed)?;
        let count = completed.len();
        self.load_ahead(&completed);
        for Completion { token, result } in completed.drain(..) {
            self.complete(token.0 as usize, result);
        }
        self.completed.replace(completed);
        Ok(count)
    }

    /// Has what the completions touch here loaded together, before one after the other does: of many
    /// connections the cache has but few.
    fn load_ahead(&self, completed: &[Completion]) {
        let flights = self.flights.borrow();
        if completed.len() < 2 || flights.len() < MANY {
            return;
        }
        load_ahead(completed.iter().filter_map(|completion| {
            match &flights.get(completion.token.0 as usize)?.state {
                State::Waiting(waker) => Some(waker),
                _ => None,
            }
        }));
    }

    fn complete(&self, key: usize, result: io::Result<Done>) {
        let mut flights = self.flights.borrow_mut();
        let flight = flights.get_mut(key).expect("each request is answered once");
        match std::mem::replace(&mut flight.state, State::Abandoned) {
            State::Waiting(waker) => {
                flight.state = State::Done(match (result, flight.cancelled) {
                    (Err(_), Some(cause)) => Err(cause.into()),
                    (result, _) => result,
                });
                drop(flights);
                waker.wake();
            }
            State::Abandoned => {
                let flight = flights.remove(key);
                drop(flights);
                // A connection that nobody waits for is closed, not leaked.
                if let Ok(Done::Accepted(socket) | Done::Connected(socket)) = result {
                    self.driver.borrow_mut().close(socket);
                }
                drop(flight);
            }
            State::Done(_) => unreachable!("each request is answered once"),
        }
    }

    fn start(&self, request: Request, patience: Patience, waker: &Waker) -> usize {
        let expires = match patience.limit {
            Duration::MAX => Duration::MAX,
            limit => now().saturating_add(limit),
        };
        self.earliest.set(self.earliest.get().min(expires));
        let drained = patience.ends_with_drain && self.told_draining.get();
        let flight = Flight {
            state: State::Waiting(waker.clone()),
            expires,
            ends_with_drain: patience.ends_with_drain,
            cancelled: drained.then_some(Cause::Drained),
            _hold: Session::current().map(|session| session.hold()),
        };
        let key = self.flights.borrow_mut().insert(flight);
        let mut driver = self.driver.borrow_mut();
        driver.start(Token(key as u64), request);
        if drained {
            driver.cancel(Token(key as u64));
        }
        key
    }

    /// Waits a while for the answers that nobody waits for any more: until then the kernel has what
    /// belongs to their requests.
    pub(crate) fn settle(&self, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        while !self.flights.borrow().is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.driver.borrow_mut().park(Some(left))?;
            self.reap()?;
        }
        Ok(())
    }

    /// What is still here at the end.
    pub(crate) fn left(&self) -> Left {
        Left {
            requests: self.flights.borrow().len(),
            draining: self.draining.borrow().len(),
            buffers: self.driver.borrow().buffers_lent(),
            ..Left::default()
        }
    }

    /// Requests that were not answered, or whose answer was not fetched.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.borrow().len()
    }

    /// When to call [`Io::expire`] next, if there is anything that may expire.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        Some(self.earliest.get()).filter(|earliest| *earliest != Duration::MAX)
    }

    /// Cancels what has waited too long.
    pub(crate) fn expire(&self, now: Duration) {
        if now < self.earliest.get() {
            return;
        }
        let mut earliest = Duration::MAX;
        self.cancel_each(Cause::Expired, |flight| {
            let expired = flight.expires <= now;
            if !expired {
                earliest = earliest.min(flight.expires);
            }
            expired
        });
        let next = if earliest == Duration::MAX { earliest } else { earliest.max(now + LOOK) };
        self.earliest.set(next);
    }

    /// Says that the program drains: to those who wait for it, and to idle I/O.
    /// True the first time.
    pub(crate) fn tell_draining(&self) -> bool {
        if self.told_draining.replace(true) {
            return false;
        }
        self.cancel_each(Cause::Drained, |flight| flight.ends_with_drain);
        let mut waiting = self.draining.take();
        waiting.drain().for_each(Waker::wake);
        true
    }

    fn cancel_each(&self, cause: Cause, mut which: impl FnMut(&Flight) -> bool) {
        let mut driver = self.driver.borrow_mut();
        for (key, flight) in &mut *self.flights.borrow_mut() {
            let waiting = matches!(flight.state, State::Waiting(_)) && flight.cancelled.is_none();
            if waiting && which(flight) {
                flight.cancelled = Some(cause);
                driver.cancel(Token(key as u64));
            }
        }
    }
}

/// Closes a socket, if its processor is still there.
pub(crate) fn close(socket: Socket) {
    try_with(|io| io.driver(|driver| driver.close(socket)));
}

/// A request to the driver, awaited.
pub(crate) fn request(request: Request, patience: Patience) -> Requested {
    Requested(Stage::New(Some((request, patience))))
}

/// The future of [`request`].
pub(crate) struct Requested(Stage);

enum Stage {
    New(Option<(Request, Patience)>),
    Flying(usize),
    Over,
}

impl Future for Requested {
    type Output = io::Result<Done>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        with(|io| match &mut self.0 {
            Stage::New(request) => {
                let (request, patience) = request.take().expect("started once");
                self.0 = Stage::Flying(io.start(request, patience, context.waker()));
                Poll::Pending
            }
            Stage::Flying(key) => {
                let key = *key;
                let mut flights = io.flights.borrow_mut();
                match &mut flights[key].state {
                    State::Waiting(waker) => {
                        waker.clone_from(context.waker());
                        Poll::Pending
                    }
                    State::Done(_) => {
                        let flight = flights.remove(key);
                        drop(flights);
                        self.0 = Stage::Over;
                        let State::Done(result) = flight.state else { unreachable!() };
                        Poll::Ready(result)
                    }
                    State::Abandoned => unreachable!("abandoned by being dropped"),
                }
            }
            Stage::Over => panic!("a request is awaited once"),
        })
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        let Stage::Flying(key) = self.0 else { return };
        try_with(|io| {
            let mut flights = io.flights.borrow_mut();
            if matches!(flights[key].state, State::Done(_)) {
                let flight = flights.remove(key);
                drop(flights);
                if let State::Done(Ok(Done::Accepted(socket) | Done::Connected(socket))) =
                    flight.state
                {
                    io.driver(|driver| driver.close(socket));
                }
            } else {
                flights[key].state = State::Abandoned;
                drop(flights);
                io.driver(|driver| driver.cancel(Token(key as u64)));
            }
        });
    }
}
