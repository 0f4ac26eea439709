//! The future of a request and the handle of a socket: indices into the tables of one processor.
//!
//! Both are `Send`, because futures that hold them may have to be. So they may move to another processor, to another
//! program or to a thread without a processor, where the index would refer to another request or connection. Therefore
//! each carries the identity of its processor. Using it elsewhere fails with [`Elsewhere`]; dropping it elsewhere is
//! forwarded to its own processor.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use phalanx_core::{ProcessorId, catch_panic};
use phalanx_driver::{Done, Driver, Request, Socket};

use super::abandoned::LastWrite;
use super::placement::{PassedState, Target};
use super::{Io, IoTimeout, NO_RUNTIME, try_with, with, with_any};

/// No processor.
const STAYS: u16 = u16::MAX;

/// The error of using a stream, a listener or another socket away from the processor that made it, or of awaiting a
/// read, a write or another request there.
///
/// Sockets stay on their processor, and requests stay where they were first awaited. Send the bytes to an operation on
/// that processor, and use the stream there. Dropping a stream elsewhere closes it on its own processor. The error's
/// kind is [`Other`](io::ErrorKind::Other).
///
/// ```
/// use phalanx::net::Elsewhere;
///
/// fn explain(error: &std::io::Error) -> &'static str {
///     match error.get_ref().and_then(|inner| inner.downcast_ref()) {
///         Some(Elsewhere::AnotherProcessor) => "moved by call_on?",
///         Some(Elsewhere::Ended) => "kept from another run?",
///         _ => "the network",
///     }
/// }
/// # assert_eq!(explain(&Elsewhere::Ended.into()), "kept from another run?");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Elsewhere {
    /// The socket or request belongs to another processor, of this program or of another one.
    #[error(
        "a socket or request was used on another processor than the one that made it; \
         send the bytes to that processor and use it there"
    )]
    AnotherProcessor,
    /// The processor of the socket or request has ended, with its program.
    #[error(
        "a socket or request was used after the program that made it had ended; \
         make a new one in this program"
    )]
    Ended,
}

impl From<Elsewhere> for io::Error {
    fn from(error: Elsewhere) -> Self {
        Self::other(error)
    }
}

#[cold]
fn elsewhere(home: ProcessorId) -> io::Error {
    if home.is_alive() { Elsewhere::AnotherProcessor.into() } else { Elsewhere::Ended.into() }
}

/// Runs `act` with the I/O of the processor `home`: now if this is its thread, else on that processor. Does nothing
/// if that processor has ended, because its driver has closed all sockets.
pub(crate) fn run_on_home(home: ProcessorId, act: impl FnOnce(&Io) + Copy + Send + 'static) {
    let at_home = move || try_with(|io| (io.home == home).then(|| act(io))).flatten();
    if at_home().is_none() {
        home.run_later(move || _ = at_home());
    }
}

/// A socket of one processor. Dropping it, on any thread, closes the socket.
pub(crate) struct HomeSocket {
    socket: Socket,
    pub(super) home: ProcessorId,
    /// The listener that has accepted it.
    listener: Option<Socket>,
    /// Whether another processor has served it before.
    has_moved: bool,
    /// Whether it receives datagrams.
    has_datagrams: bool,
    /// The state that it has passed on. Boxed, since few sockets have it; the mutex is never locked.
    state: Option<Box<Mutex<PassedState>>>,
    /// Where the connection moves when it is offered next ([`Target::pack`]), or [`STAYS`].
    leaves_for: AtomicU16,
}

impl HomeSocket {
    /// Takes ownership of a new socket of this processor's driver.
    pub(crate) fn new(socket: Socket) -> Self {
        let home = with(|io| {
            io.place.opened();
            io.home
        });
        Self::of(socket, home)
    }

    fn of(socket: Socket, home: ProcessorId) -> Self {
        let leaves_for = AtomicU16::new(STAYS);
        let (has_moved, has_datagrams) = (false, false);
        Self { socket, home, listener: None, has_moved, has_datagrams, state: None, leaves_for }
    }

    /// Takes ownership of a new socket for datagrams of this processor's driver.
    pub(crate) fn datagrams(socket: Socket) -> Self {
        with(|io| io.place.count_datagram_socket(1));
        let mut new = Self::new(socket);
        new.has_datagrams = true;
        new
    }

    /// Takes ownership of a new listening socket of this processor's driver.
    pub(crate) fn listening(socket: Socket) -> Self {
        let home = with(|io| {
            io.listens(socket);
            io.home
        });
        Self::of(socket, home)
    }

    /// Takes ownership of a connection that a [request](Self::request) on this listener returned.
    pub(crate) fn accepted(
        &self,
        socket: Socket,
        served: bool,
        state: Option<PassedState>,
    ) -> Self {
        try_with(|io| if served { io.place.count_socket() } else { io.place.opened() });
        let mut accepted = Self::of(socket, self.home);
        accepted.listener = Some(self.socket);
        accepted.has_moved = served;
        accepted.state = state.map(|state| Box::new(Mutex::new(state)));
        accepted
    }

    /// Hands the connection to another processor with `state`, if one should serve it. False if it stays.
    ///
    /// The driver may be receiving ahead, so that the connection cannot be detached now. Then the next
    /// [send](Self::send) stops that, and the offer after it succeeds, unless the client sends before it has the answer.
    pub(crate) fn relocate(&self, state: impl FnOnce() -> Option<PassedState>) -> bool {
        let Some(listener) = self.listener else { return false };
        let moved = try_with(|io| {
            if io.home != self.home {
                return false;
            }
            let prepared = self.leaves_for.load(Ordering::Relaxed);
            if prepared != STAYS {
                self.leaves_for.store(STAYS, Ordering::Relaxed);
            }
            let target = match prepared {
                STAYS => io.relocation(listener),
                target => Some(Target::unpack(target)),
            };
            let Some(target) = target else { return false };
            let moved = io.relocate(listener, self.socket, target, state);
            if !moved && prepared == STAYS {
                self.leaves_for.store(target.pack(), Ordering::Relaxed);
            }
            moved
        });
        moved == Some(true)
    }

    /// Whether another processor should serve the connection, in a program whose number of active processors has changed.
    /// Then it moves when it is offered next, unless something arrives before.
    #[inline]
    pub(crate) fn should_move(&self) -> bool {
        let Some(listener) = self.listener else { return false };
        let target = try_with(|io| {
            if io.home != self.home || !io.has_changed_active() {
                return None;
            }
            let Some(target) = io.relocation(listener) else { return Some(STAYS) };
            // It may have nothing to send for long.
            let _ = io.try_driver(|driver| {
                driver.stop_ahead(self.socket);
                Ok(())
            });
            Some(target.pack())
        });
        let Some(target) = target.flatten() else { return false };
        self.leaves_for.store(target, Ordering::Relaxed);
        target != STAYS
    }

    /// Lets the connection move when it is offered next, if another processor should serve it.
    pub(crate) fn prepare_to_leave(&self) {
        let Some(listener) = self.listener.filter(|_| !self.is_leaving()) else { return };
        let target = try_with(|io| (io.home == self.home).then(|| io.relocation(listener)));
        if let Some(target) = target.flatten().flatten() {
            self.leaves_for.store(target.pack(), Ordering::Relaxed);
        }
    }

    /// Whether the connection moves when it is offered next, if nothing is in flight then.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaves_for.load(Ordering::Relaxed) != STAYS
    }

    /// Whether another processor has served the connection before.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// As [`request`](Self::request), for requests that send.
    pub(crate) fn send<R>(
        &self,
        request: impl FnOnce(Socket) -> R,
        timeout: IoTimeout,
    ) -> Requested<R> {
        if self.is_leaving() {
            self.stop_ahead();
        }
        self.request(request, timeout)
    }

    #[cold]
    fn stop_ahead(&self) {
        let stop = |driver: &mut dyn Driver| {
            driver.stop_ahead(self.socket);
            Ok(())
        };
        try_with(|io| (io.home == self.home).then(|| io.try_driver(stop)));
    }

    /// The socket in its driver.
    pub(crate) fn socket(&self) -> Socket {
        self.socket
    }

    /// The future of a request on this socket.
    pub(crate) fn request<R>(
        &self,
        request: impl FnOnce(Socket) -> R,
        timeout: IoTimeout,
    ) -> Requested<R> {
        let (request, home) = (request(self.socket), Some(self.home));
        Requested(Progress::New { request, timeout, home })
    }

    /// Takes the state that another processor has passed on with the connection, if it is of this type.
    pub(crate) fn take_state<S: 'static>(&mut self) -> Option<S> {
        let state = self.state.as_mut()?.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !state.is::<S>() {
            return None;
        }
        let state = self.state.take()?.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.downcast().ok().map(|state| *state)
    }

    /// Calls the driver with this socket.
    ///
    /// # Errors
    /// [`Elsewhere`], also outside a processor; or `f`'s.
    pub(crate) fn driver<R>(
        &self,
        f: impl FnOnce(&mut dyn Driver, Socket) -> io::Result<R>,
    ) -> io::Result<R> {
        with_any(|io| match io {
            Some(io) if io.home == self.home => io.try_driver(|driver| f(driver, self.socket)),
            _ => Err(elsewhere(self.home)),
        })
    }
}

impl HomeSocket {
    /// Whether this thread runs the processor of the socket.
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        try_with(|io| io.home == self.home) == Some(true)
    }

    /// Sends the last bytes of a dropped stream, on any thread, and drops the socket then.
    pub(crate) fn send_last(self, bytes: Vec<u8>) {
        LastWrite { socket: self, rest: bytes }.end(Io::send_last);
    }

    /// Shuts down the write direction, on any thread. Errors are ignored.
    pub(crate) fn shutdown_write(&self) {
        let socket = self.socket;
        run_on_home(self.home, move |io| io.shutdown_write(socket));
    }
}

impl fmt::Debug for HomeSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

impl Drop for HomeSocket {
    fn drop(&mut self) {
        let (socket, has_datagrams) = (self.socket, self.has_datagrams);
        run_on_home(self.home, move |io| {
            if has_datagrams {
                io.place.count_datagram_socket(-1);
            }
            let arrived = io.place.closed(socket);
            io.close(socket);
            arrived.into_iter().for_each(|arrived| catch_panic(|| drop(arrived)));
        });
    }
}

/// A request to the driver of the processor that awaits it first.
pub(crate) fn request(request: Request, timeout: IoTimeout) -> Requested {
    Requested(Progress::New { request, timeout, home: None })
}

/// A receive, without the space that the largest [`Request`] needs: servers have many that wait.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) socket: Socket,
    pub(crate) max: usize,
}

impl From<Receive> for Request {
    fn from(Receive { socket, max }: Receive) -> Self {
        Self::Receive { socket, max }
    }
}

/// The future of [`request`] and [`HomeSocket::request`].
pub(crate) struct Requested<R = Request>(Progress<R>);

impl<R> fmt::Debug for Requested<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = match &self.0 {
            Progress::New { .. } => "new",
            Progress::Flying { .. } => "flying",
            Progress::Over => "over",
        };
        f.debug_tuple("Requested").field(&progress).finish()
    }
}

/// The progress of a request.
pub(super) enum Progress<R> {
    /// Not started. If there is a home, only that processor may start it.
    New { request: R, timeout: IoTimeout, home: Option<ProcessorId> },
    /// In the table of its processor.
    Flying { key: usize, home: ProcessorId },
    /// Completed or abandoned.
    Over,
}

impl<R> Requested<R> {
    /// Ends the request. Returns its last progress.
    pub(super) fn end(&mut self) -> Progress<R> {
        std::mem::replace(&mut self.0, Progress::Over)
    }

    /// A request that has not started.
    pub(super) fn unstarted(&mut self) -> Option<(&mut R, IoTimeout)> {
        match &mut self.0 {
            Progress::New { request, timeout, .. } => Some((request, *timeout)),
            Progress::Flying { .. } | Progress::Over => None,
        }
    }

    /// Lets a write on `socket` complete, although its future is dropped. Then sends the rest, and drops the socket.
    pub(crate) fn finish_alone(mut self, socket: HomeSocket, rest: Vec<u8>) {
        let Progress::Flying { key, .. } = self.end() else { return socket.send_last(rest) };
        let last = LastWrite { socket, rest };
        last.end(move |io, last| io.finish_alone(key, last));
    }

    /// Abandons a request that was polled on another processor than its own.
    #[cold]
    fn stray(&mut self, home: ProcessorId) -> Poll<io::Result<Done>> {
        drop(Self(self.end()));
        Poll::Ready(Err(elsewhere(home)))
    }

    /// The result of a poll outside a processor.
    ///
    /// # Panics
    /// If the request belongs to no processor yet.
    #[cold]
    fn outside(&mut self) -> Poll<io::Result<Done>> {
        match self.0 {
            Progress::New { home: Some(home), .. } | Progress::Flying { home, .. } => {
                self.stray(home)
            }
            Progress::New { home: None, .. } | Progress::Over => panic!("{NO_RUNTIME}"),
        }
    }
}

impl<R: Into<Request> + Unpin> Future for Requested<R> {
    type Output = io::Result<Done>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        with_any(|io| {
            let Some(io) = io else { return this.outside() };
            match this.0 {
                Progress::New { home: Some(home), .. } if home != io.home => this.stray(home),
                Progress::New { timeout, .. } => {
                    let Progress::New { request, .. } = this.end() else {
                        unreachable!("matched above")
                    };
                    let key = io.start(request.into(), timeout, context.waker())?;
                    this.0 = Progress::Flying { key, home: io.home };
                    Poll::Pending
                }
                Progress::Flying { home, .. } if home != io.home => this.stray(home),
                Progress::Flying { key, .. } => {
                    let answer = io.answer(key, context.waker());
                    if answer.is_ready() {
                        this.0 = Progress::Over;
                    }
                    answer
                }
                Progress::Over => panic!("a request is awaited once"),
            }
        })
    }
}

impl<R> Drop for Requested<R> {
    fn drop(&mut self) {
        if let Progress::Flying { key, home } = self.0 {
            run_on_home(home, move |io| io.abandon(key));
        }
    }
}
