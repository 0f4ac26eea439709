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
//!
//! A request and a socket are numbers in one processor's tables, so their handles carry that
//! processor's identity (`request`). Wakers and payloads may be foreign code. The table is not borrowed
//! while a waker is cloned, woken or dropped, and a waker's panic is contained.
//!
//! | file | idea |
//! |---|---|
//! | `io_timeout` | how long to wait |
//! | `request` | a request's future, and a socket, on their processor and away from it |

mod io_timeout;
mod request;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use phalanx_core::{Hold, ProcessorId, Session, load_ahead, now, wake_contained};
use phalanx_driver::{Completion, Done, Driver, Request, Socket, Token};
use slab::Slab;

pub use self::io_timeout::IoTimeout;
pub use self::request::Elsewhere;
pub(crate) use self::request::{HomeSocket, release, request};
use crate::blocking::{Pools, contain};
use crate::exit_report::Leaks;
use crate::shutdown_signal::Drained;

/// A processor's driver and what is in flight on it.
pub(crate) struct Io {
    home: ProcessorId,
    driver: RefCell<Box<dyn Driver>>,
    flights: RefCell<Slab<Flight>>,
    completed: RefCell<Vec<Completion>>,
    /// Requests of destructors that ran while the driver was borrowed.
    postponed: RefCell<Vec<Postponed>>,
    /// The processor has ended, and nothing is started any more.
    closed: Cell<bool>,
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

/// A request of a destructor that ran while the driver was borrowed.
enum Postponed {
    Close(Socket),
    Cancel(usize),
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

/// The error of I/O by a destructor that the driver runs.
#[cold]
fn in_driver() -> io::Error {
    const WHY: &str = "the destructor of a payload cannot do I/O, since the driver runs it";
    io::Error::new(io::ErrorKind::ResourceBusy, WHY)
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

/// The thread has its processor's I/O until this is dropped.
pub(crate) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        drop(IO.take());
    }
}

/// Whether this thread runs a processor.
pub(crate) fn is_entered() -> bool {
    IO.with_borrow(Option::is_some)
}

impl Io {
    /// The I/O of the processor with this identity.
    pub(crate) fn new(home: ProcessorId, driver: Box<dyn Driver>) -> Rc<Self> {
        Rc::new(Self {
            home,
            driver: RefCell::new(driver),
            flights: RefCell::default(),
            completed: RefCell::default(),
            postponed: RefCell::default(),
            closed: Cell::new(false),
            draining: RefCell::default(),
            told_draining: Cell::new(false),
            earliest: Cell::new(Duration::MAX),
            apart: OnceCell::new(),
            pools: RefCell::default(),
        })
    }

    /// Makes this the thread's I/O.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        IO.set(Some(self.clone()));
        Entered(())
    }

    /// The processor that all of this belongs to.
    pub(crate) fn home(&self) -> ProcessorId {
        self.home
    }

    /// The driver for the processor's loop.
    ///
    /// # Panics
    /// While the driver is borrowed.
    pub(crate) fn driver<R>(&self, f: impl FnOnce(&mut dyn Driver) -> R) -> R {
        f(&mut **self.driver.borrow_mut())
    }

    /// The driver for operations, and for destructors of their payloads.
    ///
    /// # Errors
    /// `ResourceBusy` while the driver is borrowed: a destructor runs inside it.
    fn try_driver<R>(&self, f: impl FnOnce(&mut dyn Driver) -> io::Result<R>) -> io::Result<R> {
        f(&mut **self.driver.try_borrow_mut().map_err(|_| in_driver())?)
    }

    /// Wakes the operations whose requests were answered. Says how many there were.
    pub(crate) fn reap(&self) -> io::Result<usize> {
        let mut completed = self.completed.take();
        self.driver.borrow_mut().reap(&mut completed)?;
        self.catch_up();
        let count = completed.len();
        self.load_ahead(&completed);
        for Completion { token, result } in completed.drain(..) {
            self.complete(token.0 as usize, result);
        }
        self.completed.replace(completed);
        Ok(count)
    }

    /// Carries out the postponed requests of destructors.
    fn catch_up(&self) {
        while !self.postponed.borrow().is_empty() {
            for postponed in self.postponed.take() {
                match postponed {
                    Postponed::Close(socket) => self.close(socket),
                    Postponed::Cancel(key) => self.cancel(key),
                }
            }
        }
    }

    fn close(&self, socket: Socket) {
        match self.driver.try_borrow_mut() {
            Ok(mut driver) => driver.close(socket),
            Err(_) => self.postponed.borrow_mut().push(Postponed::Close(socket)),
        }
    }

    /// Of a request that is in flight until it is answered.
    fn cancel(&self, key: usize) {
        match self.driver.try_borrow_mut() {
            Ok(mut driver) => driver.cancel(Token(key as u64)),
            Err(_) => self.postponed.borrow_mut().push(Postponed::Cancel(key)),
        }
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
                wake_contained(waker);
            }
            State::Abandoned => {
                let flight = flights.remove(key);
                drop(flights);
                self.discard(result);
                drop(flight);
            }
            State::Done(_) => unreachable!("each request is answered once"),
        }
    }

    /// A connection that nobody waits for is closed, not leaked.
    fn discard(&self, result: io::Result<Done>) {
        if let Ok(Done::Accepted(socket) | Done::Connected(socket)) = result {
            self.close(socket);
        }
    }

    /// Cancels a request, or drops its result. Its future has been dropped.
    fn abandon(&self, key: usize) {
        let mut flights = self.flights.borrow_mut();
        let Some(flight) = flights.get_mut(key) else { return };
        match std::mem::replace(&mut flight.state, State::Abandoned) {
            State::Waiting(waker) => {
                drop(flights);
                self.cancel(key);
                contain(|| drop(waker));
            }
            State::Done(result) => {
                let flight = flights.remove(key);
                drop(flights);
                self.discard(result);
                drop(flight);
            }
            State::Abandoned => (),
        }
    }

    fn start(&self, request: Request, timeout: IoTimeout, waker: &Waker) -> io::Result<usize> {
        if self.closed.get() {
            return Err(Elsewhere::Ended.into());
        }
        let expires = match timeout.limit {
            Duration::MAX => Duration::MAX,
            limit => now().saturating_add(limit),
        };
        self.earliest.set(self.earliest.get().min(expires));
        let drained = timeout.ends_with_drain && self.told_draining.get();
        let flight = Flight {
            state: State::Waiting(waker.clone()),
            expires,
            ends_with_drain: timeout.ends_with_drain,
            cancelled: drained.then_some(Cause::Drained),
            _hold: Session::current().map(|session| session.hold()),
        };
        // Not by `try_driver`: a closure would copy the request once more.
        let mut driver = self.driver.try_borrow_mut().map_err(|_| in_driver())?;
        let key = self.flights.borrow_mut().insert(flight);
        driver.start(Token(key as u64), request);
        if drained {
            driver.cancel(Token(key as u64));
        }
        Ok(key)
    }

    /// The request's answer, which leaves the table, or else registers `waker` for it.
    fn answer(&self, key: usize, waker: &Waker) -> Poll<io::Result<Done>> {
        let mut flights = self.flights.borrow_mut();
        match flights.get(key).map(|flight| &flight.state) {
            Some(State::Done(_)) => {
                let flight = flights.remove(key);
                drop(flights);
                let State::Done(result) = flight.state else { unreachable!("looked at above") };
                Poll::Ready(result)
            }
            Some(State::Waiting(before)) if before.will_wake(waker) => Poll::Pending,
            Some(State::Waiting(_)) => {
                drop(flights);
                self.wait_for_another(key, waker)
            }
            Some(State::Abandoned) | None => Poll::Ready(Err(Elsewhere::Ended.into())),
        }
    }

    /// Replaces the waker of a request. Cloning is foreign code, and may do anything to the table.
    #[cold]
    fn wait_for_another(&self, key: usize, waker: &Waker) -> Poll<io::Result<Done>> {
        let mut waker = waker.clone();
        let mut flights = self.flights.borrow_mut();
        match flights.get_mut(key).map(|flight| &mut flight.state) {
            Some(State::Waiting(before)) => std::mem::swap(before, &mut waker),
            _ => {
                drop(flights);
                return self.answer(key, &waker);
            }
        }
        // The former waker is dropped after the borrow: that is foreign code as well.
        drop(flights);
        contain(|| drop(waker));
        Poll::Pending
    }

    /// Gives up all requests after the processor's end, also those whose futures were moved away.
    /// Waits up to `timeout` for their answers: until then the kernel has their buffers.
    pub(crate) fn settle(&self, timeout: Duration) -> io::Result<()> {
        self.closed.set(true);
        let keys: Vec<_> = self.flights.borrow().iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.abandon(key));
        let deadline = Instant::now() + timeout;
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
    pub(crate) fn left(&self) -> Leaks {
        Leaks {
            requests: self.flights.borrow().len(),
            draining: self.draining.borrow().len(),
            buffers: self.driver.borrow().buffers_lent(),
            ..Leaks::default()
        }
    }

    /// Requests that were not answered, or whose answer was not fetched.
    #[cfg(feature = "sim")]
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
        waiting.drain().for_each(wake_contained);
        true
    }

    fn cancel_each(&self, cause: Cause, mut which: impl FnMut(&Flight) -> bool) {
        let mut chosen = Vec::new();
        for (key, flight) in &mut *self.flights.borrow_mut() {
            let waiting = matches!(flight.state, State::Waiting(_)) && flight.cancelled.is_none();
            if waiting && which(flight) {
                flight.cancelled = Some(cause);
                chosen.push(key);
            }
        }
        chosen.into_iter().for_each(|key| self.cancel(key));
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        self.flights.get_mut().drain().for_each(|flight| contain(|| drop(flight)));
        self.draining.get_mut().drain().for_each(|waker| contain(|| drop(waker)));
    }
}
