//! Operations that wait for I/O: the table of requests between a processor's driver and its operations.
//!
//! An operation that awaits I/O passes its request, with its buffers, to the driver and stores its waker here. If the
//! operation is dropped before the request completes, because its session ended or a timeout dropped it, the request is
//! cancelled. Its entry stays until the driver completes it; only then are its buffers freed, and only then can the
//! session end.
//!
//! A request's time limit is a field of its entry and not a timer, because a server limits every wait but hardly ever
//! reaches a limit. When the earliest limit has passed, one scan of the table cancels the requests that have expired.
//!
//! Requests and sockets are indices into one processor's tables, so their handles carry that processor's identity
//! (`request`, `socket`). Wakers and payloads may run user code. The table is not borrowed while a waker is cloned,
//! woken or dropped, and a waker's panic is caught.
//!
//! | file | content |
//! |---|---|
//! | `io_timeout` | time limits |
//! | `expiry` | cancelling requests that have expired, or that shutdown ends |
//! | `drained` | the error of I/O that shutdown ends |
//! | `deferred` | closing and cancelling while the driver runs a payload's destructor |
//! | `placement/` | the processor that serves a connection, at its begin and later |
//! | `traffic` | counters of bytes, receives and opened sockets |
//! | `sending` | sends that complete immediately |
//! | `settling` | the end of all requests |
//! | `abandoned` | requests whose futures were dropped |
//! | `accepting` | the future of an accept |
//! | `request` | the future of a request, on its processor and on others |
//! | `socket` | the handle of a socket, on its processor and on others |

mod abandoned;
mod accepting;
mod deferred;
mod drained;
mod expiry;
mod io_timeout;
mod placement;
mod request;
mod sending;
mod settling;
mod socket;
mod traffic;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use phalanx_core::{
    ProcessorId, Session, SessionGuard, catch_panic, now, prefetch_wakers, wake_catching_panics,
};
use phalanx_driver::{Completion, Done, Driver, Request, Socket, Token};
use slab::Slab;

use self::abandoned::LastWrite;
use self::deferred::Deferred;
pub use self::drained::Drained;
use self::expiry::Cause;
pub use self::io_timeout::IoTimeout;
use self::placement::LocalPlacement;
pub(crate) use self::placement::{
    Accepted, LoadSample, Loads, Placement, Saturated, SaturationProbe, active_changed, place,
};
pub use self::request::OwnerError;
pub(crate) use self::request::{Receive, RequestFuture, request, run_on_home};
pub(crate) use self::sending::SendPayload;
pub(crate) use self::socket::HomeSocket;
pub(crate) use self::traffic::{Traffic, size_of_log};
use crate::blocking::Pools;
use crate::program::Leaks;

/// A processor's driver, and its requests in flight.
pub(crate) struct Io {
    home: ProcessorId,
    driver: RefCell<Box<dyn Driver>>,
    requests: RefCell<Slab<Entry>>,
    completed: RefCell<Vec<Completion>>,
    /// Calls of destructors that ran while the driver was borrowed.
    deferred: RefCell<Vec<Deferred>>,
    /// Whether the processor has ended and starts no more requests.
    closed: Cell<bool>,
    /// Operations that wait for the program to drain.
    pub(crate) draining: RefCell<Slab<Waker>>,
    /// Whether these operations were woken.
    pub(crate) drain_announced: Cell<bool>,
    /// No request expires before this.
    earliest: Cell<Duration>,
    /// The table is not scanned for expired requests before this.
    next_scan: Cell<Duration>,
    /// The time of the last turn.
    turn_began: Cell<Duration>,
    /// The start of the program; `None` in a simulation.
    epoch: Option<Instant>,
    /// The session of the runtime's own operations, which are not part of their callers' sessions.
    pub(crate) detached_session: OnceCell<Session>,
    /// The pools of blocking stages that were used on this processor.
    pub(crate) pools: RefCell<Pools>,
    placement: LocalPlacement,
    /// Whether requests of a turn share a system call.
    shares_calls: bool,
    /// The number of sends that may still complete immediately in this sweep.
    immediate_sends_left: Cell<u32>,
    /// The number of accepts that may still complete immediately in this sweep.
    immediate_accepts_left: Cell<u32>,
    /// Whether the sends of this sweep share system calls.
    shares_sends: Cell<bool>,
}

/// The number of requests in flight from which prefetching pays off. Fewer requests fit into the cache together with
/// the operations that wait for them.
const MIN_PREFETCH: usize = 512;

/// A request in flight.
struct Entry {
    state: State,
    expires: Duration,
    ends_with_drain: bool,
    /// The reason why this table cancelled the request, if it did.
    cancelled: Option<Cause>,
    /// Delays the session's end until the kernel has released the buffers.
    _guard: Option<SessionGuard>,
}

enum State {
    Waiting(Waker),
    Done(io::Result<Done>),
    /// Its future was dropped.
    Abandoned,
    /// An accept whose future was dropped. If it completes, the connection returns to this listener.
    ReturningToBacklog(Socket),
    /// A write whose future was dropped, but which may complete.
    Finishing(Box<LastWrite>),
}

thread_local! {
    static IO: RefCell<Option<Rc<Io>>> = const { RefCell::new(None) };
}

/// The panic message for I/O on a thread that runs no processor.
const NO_RUNTIME: &str = "I/O is only possible in operations of a running Runtime";

/// The error of I/O in a destructor that runs inside the driver.
#[cold]
fn in_driver() -> io::Error {
    const MESSAGE: &str =
        "the destructor of a payload cannot perform I/O, because it runs inside the driver";
    io::Error::new(io::ErrorKind::ResourceBusy, MESSAGE)
}

/// Runs `f` with this processor's I/O.
///
/// # Panics
/// Outside a runtime's processor.
#[track_caller]
pub(crate) fn with<R>(f: impl FnOnce(&Io) -> R) -> R {
    IO.with_borrow(|io| f(io.as_ref().expect(NO_RUNTIME)))
}

/// Like [`with`], but passes `None` to `f` outside a processor.
pub(crate) fn with_any<R>(f: impl FnOnce(Option<&Io>) -> R) -> R {
    IO.with_borrow(|io| f(io.as_deref()))
}

/// Like [`with`], but returns `None` outside a processor. For use in destructors.
pub(crate) fn try_with<R>(f: impl FnOnce(&Io) -> R) -> Option<R> {
    IO.try_with(|io| io.borrow().as_deref().map(f)).ok().flatten()
}

/// The thread's I/O is set until this is dropped.
pub(crate) struct EnterGuard(());

impl Drop for EnterGuard {
    fn drop(&mut self) {
        drop(IO.take());
    }
}

/// Whether this thread runs a processor.
pub(crate) fn is_entered() -> bool {
    IO.with_borrow(Option::is_some)
}

impl Io {
    /// Creates the I/O of the processor numbered `index` of `placement`.
    pub(crate) fn new(
        placement: Arc<Placement>,
        index: usize,
        driver: Box<dyn Driver>,
        epoch: Option<Instant>,
    ) -> Rc<Self> {
        let placement = LocalPlacement::new(placement, index);
        let home = placement.id();
        Rc::new(Self {
            home,
            shares_calls: driver.shares_calls(),
            driver: RefCell::new(driver),
            requests: RefCell::default(),
            completed: RefCell::default(),
            deferred: RefCell::default(),
            closed: Cell::new(false),
            draining: RefCell::default(),
            drain_announced: Cell::new(false),
            earliest: Cell::new(Duration::MAX),
            next_scan: Cell::default(),
            turn_began: Cell::default(),
            epoch,
            detached_session: OnceCell::new(),
            pools: RefCell::default(),
            placement,
            immediate_sends_left: Cell::new(0),
            immediate_accepts_left: Cell::new(0),
            shares_sends: Cell::new(false),
        })
    }

    /// Makes this the thread's I/O.
    pub(crate) fn enter(self: &Rc<Self>) -> EnterGuard {
        IO.set(Some(self.clone()));
        EnterGuard(())
    }

    /// The processor's identity.
    pub(crate) fn home(&self) -> ProcessorId {
        self.home
    }

    /// The time since the start of the program, by the clock.
    pub(crate) fn clock(&self) -> Duration {
        self.epoch.map_or_else(now, |epoch| epoch.elapsed())
    }

    /// The processor's number.
    pub(crate) fn index(&self) -> usize {
        self.placement.index
    }

    /// Runs `f` with the driver, for the processor's loop.
    ///
    /// # Panics
    /// If the driver is borrowed.
    pub(crate) fn driver<R>(&self, f: impl FnOnce(&mut dyn Driver) -> R) -> R {
        f(&mut **self.driver.borrow_mut())
    }

    /// Runs `f` with the driver, for operations and destructors.
    ///
    /// # Errors
    /// `ResourceBusy` in a destructor that runs inside the driver.
    pub(crate) fn try_driver<R>(
        &self,
        f: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        f(&mut **self.driver.try_borrow_mut().map_err(|_| in_driver())?)
    }

    /// Wakes the operations whose requests completed. Returns the number of completions.
    pub(crate) fn reap(&self) -> io::Result<usize> {
        let mut completed = self.completed.take();
        self.driver.borrow_mut().reap(&mut completed)?;
        self.run_deferred();
        let count = completed.len();
        self.prefetch(&completed);
        for Completion { token, result } in completed.drain(..) {
            self.complete(token.0 as usize, result);
        }
        self.completed.replace(completed);
        self.begin_sweep(false);
        Ok(count)
    }

    /// Prefetches the entries and operations of all completions, because with many connections few of them are in the
    /// cache.
    fn prefetch(&self, completed: &[Completion]) {
        let requests = self.requests.borrow();
        if completed.len() < 2 || requests.len() < MIN_PREFETCH {
            return;
        }
        prefetch_wakers(completed.iter().filter_map(|completion| {
            match &requests.get(completion.token.0 as usize)?.state {
                State::Waiting(waker) => Some(waker),
                _ => None,
            }
        }));
    }

    fn complete(&self, key: usize, result: io::Result<Done>) {
        self.placement.traffic.record_completion(&result);
        let mut requests = self.requests.borrow_mut();
        let entry = requests.get_mut(key).expect("each request completes once");
        if matches!(entry.state, State::Waiting(_)) {
            let done = State::Done(match (result, entry.cancelled) {
                (Err(_), Some(cause)) => Err(cause.into()),
                (result, _) => result,
            });
            let State::Waiting(waker) = std::mem::replace(&mut entry.state, done) else {
                unreachable!("matched above")
            };
            drop(requests);
            return wake_catching_panics(waker);
        }
        match std::mem::replace(&mut entry.state, State::Abandoned) {
            before @ (State::Abandoned | State::ReturningToBacklog(_) | State::Finishing(_)) => {
                let entry = requests.remove(key);
                drop(requests);
                match (before, result) {
                    (State::ReturningToBacklog(listener), Ok(Done::Accepted(connection))) => {
                        self.give_back(listener, connection);
                    }
                    (State::Finishing(last), Ok(_)) if entry.cancelled.is_none() => {
                        return self.send_rest(entry, *last);
                    }
                    (before, result) => {
                        self.discard(result);
                        // The previous entry may contain a socket with passed-on state, whose destructor is foreign
                        // code.
                        catch_panic(|| drop(before));
                    }
                }
                catch_panic(|| drop(entry));
            }
            State::Waiting(_) | State::Done(_) => unreachable!("each request completes once"),
        }
    }

    fn start(&self, request: Request, timeout: IoTimeout, waker: &Waker) -> io::Result<usize> {
        self.start_inline(request, timeout, waker)
    }

    /// Like [`start`](Self::start), for callers whose kind of request and timeout the compiler knows.
    #[inline(always)]
    fn start_inline(
        &self,
        request: Request,
        timeout: IoTimeout,
        waker: &Waker,
    ) -> io::Result<usize> {
        if self.closed.get() {
            return Err(OwnerError::Ended.into());
        }
        let expires = match timeout.duration() {
            Duration::MAX => Duration::MAX,
            limit => now().saturating_add(limit),
        };
        self.earliest.set(self.earliest.get().min(expires));
        let drained = timeout.ends_with_drain() && self.drain_announced.get();
        let entry = Entry {
            state: State::Waiting(waker.clone()),
            expires,
            ends_with_drain: timeout.ends_with_drain(),
            cancelled: drained.then_some(Cause::Drained),
            _guard: Session::current().map(|session| session.guard()),
        };
        // Does not use `try_driver`, because its closure would copy the request once more.
        let mut driver = self.driver.try_borrow_mut().map_err(|_| in_driver())?;
        self.placement.traffic.starts(&request);
        let key = self.requests.borrow_mut().insert(entry);
        driver.start(Token(key as u64), request);
        if drained {
            driver.cancel(Token(key as u64));
        }
        Ok(key)
    }

    /// Removes and returns the request's result, or stores `waker` until it completes.
    fn take_result(&self, key: usize, waker: &Waker) -> Poll<io::Result<Done>> {
        let mut requests = self.requests.borrow_mut();
        match requests.get(key).map(|entry| &entry.state) {
            Some(State::Done(_)) => {
                let entry = requests.remove(key);
                drop(requests);
                let State::Done(result) = entry.state else { unreachable!("matched above") };
                Poll::Ready(result)
            }
            Some(State::Waiting(before)) if before.will_wake(waker) => Poll::Pending,
            Some(State::Waiting(_)) => {
                drop(requests);
                self.replace_waker(key, waker)
            }
            Some(State::Abandoned | State::ReturningToBacklog(_) | State::Finishing(_)) | None => {
                Poll::Ready(Err(OwnerError::Ended.into()))
            }
        }
    }

    /// Replaces the waker of a request. Cloning a waker runs user code, which may change the table.
    #[cold]
    fn replace_waker(&self, key: usize, waker: &Waker) -> Poll<io::Result<Done>> {
        let mut waker = waker.clone();
        let mut requests = self.requests.borrow_mut();
        match requests.get_mut(key).map(|entry| &mut entry.state) {
            Some(State::Waiting(before)) => std::mem::swap(before, &mut waker),
            _ => {
                drop(requests);
                return self.take_result(key, &waker);
            }
        }
        // Dropping the old waker runs user code as well, so it is dropped after the borrow.
        drop(requests);
        catch_panic(|| drop(waker));
        Poll::Pending
    }

    /// The requests, waiters and buffers that are left at the end.
    pub(crate) fn leaks(&self) -> Leaks {
        Leaks {
            requests: self.requests.borrow().len(),
            draining: self.draining.borrow().len(),
            buffers: self.driver.borrow().buffers_lent(),
            ..Leaks::default()
        }
    }

    /// The number of requests that have not completed, or whose result was not taken.
    #[cfg(feature = "sim")]
    pub(crate) fn in_flight(&self) -> usize {
        self.requests.borrow().len()
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        self.requests.get_mut().drain().for_each(|entry| catch_panic(|| drop(entry)));
        self.draining.get_mut().drain().for_each(|waker| catch_panic(|| drop(waker)));
        self.placement
            .arrived
            .get_mut()
            .drain(..)
            .for_each(|arrived| catch_panic(|| drop(arrived)));
    }
}
