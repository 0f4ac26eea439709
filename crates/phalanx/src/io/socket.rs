//! The handle of a socket: an index into the tables of one processor, like a [request](super::request).

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use phalanx_core::{ProcessorId, catch_panic};
use phalanx_driver::{Driver, Request, Socket};

use super::abandoned::LastWrite;
use super::placement::{PassedState, Target};
use super::request::{RequestFuture, owner_error, run_on_home};
use super::{Io, IoTimeout, try_with, with, with_any};

/// The value of `move_target` that means no processor.
const NO_MOVE_TARGET: u16 = u16::MAX;

/// A socket of one processor. Dropping it, on any thread, closes the socket.
pub(crate) struct HomeSocket {
    socket: Socket,
    pub(super) home: ProcessorId,
    /// The listener that accepted it.
    listener: Option<Socket>,
    /// Whether another processor has served it before.
    has_moved: bool,
    /// Whether it receives datagrams.
    has_datagrams: bool,
    /// The state that the other processor passed on. It is boxed because few sockets have one. The mutex is never
    /// locked; it only makes the socket `Sync`.
    state: Option<Box<Mutex<PassedState>>>,
    /// The target of the connection when it is next offered ([`Target::pack`]), or [`NO_MOVE_TARGET`].
    move_target: AtomicU16,
}

impl HomeSocket {
    /// Takes ownership of a new socket of this processor's driver.
    pub(crate) fn new(socket: Socket) -> Self {
        let home = with(|io| {
            io.placement.opened();
            io.home
        });
        Self::of(socket, home)
    }

    fn of(socket: Socket, home: ProcessorId) -> Self {
        let move_target = AtomicU16::new(NO_MOVE_TARGET);
        let (has_moved, has_datagrams) = (false, false);
        Self { socket, home, listener: None, has_moved, has_datagrams, state: None, move_target }
    }

    /// Takes ownership of a new socket for datagrams of this processor's driver.
    pub(crate) fn datagrams(socket: Socket) -> Self {
        with(|io| io.placement.count_datagram_socket(1));
        let mut new = Self::new(socket);
        new.has_datagrams = true;
        new
    }

    /// Takes ownership of a new listening socket of this processor's driver.
    pub(crate) fn listening(socket: Socket) -> Self {
        let home = with(|io| {
            io.add_listener(socket);
            io.home
        });
        Self::of(socket, home)
    }

    /// Takes ownership of a connection that a [request](Self::request) on this listener returned.
    pub(crate) fn accepted(
        &self,
        socket: Socket,
        has_moved: bool,
        state: Option<PassedState>,
    ) -> Self {
        try_with(|io| if has_moved { io.placement.count_socket() } else { io.placement.opened() });
        let mut accepted = Self::of(socket, self.home);
        accepted.listener = Some(self.socket);
        accepted.has_moved = has_moved;
        accepted.state = state.map(|state| Box::new(Mutex::new(state)));
        accepted
    }

    /// Hands the connection to another processor with `state`, if one should serve it. Returns `false` if it stays.
    ///
    /// The connection cannot be detached while the driver is receiving in advance. In that case, the next
    /// [send](Self::send) stops the receive, and the following offer succeeds unless the client has sent more in the
    /// meantime.
    pub(crate) fn relocate(&self, state: impl FnOnce() -> Option<PassedState>) -> bool {
        let Some(listener) = self.listener else { return false };
        let moved = try_with(|io| {
            if io.home != self.home {
                return false;
            }
            let prepared = self.move_target.load(Ordering::Relaxed);
            if prepared != NO_MOVE_TARGET {
                self.move_target.store(NO_MOVE_TARGET, Ordering::Relaxed);
            }
            let target = match prepared {
                NO_MOVE_TARGET => io.next_target(listener),
                target => Some(Target::unpack(target)),
            };
            let Some(target) = target else { return false };
            let moved = io.relocate(listener, self.socket, target, state);
            if !moved && prepared == NO_MOVE_TARGET {
                self.move_target.store(target.pack(), Ordering::Relaxed);
            }
            moved
        });
        moved == Some(true)
    }

    /// Whether another processor should serve the connection, which uses state of the processor `near`. If so, it moves
    /// when it is next offered, unless bytes arrive first.
    pub(crate) fn should_move(&self, near: Option<usize>) -> bool {
        let Some(listener) = self.listener else { return false };
        let target = try_with(|io| {
            let target =
                (io.home == self.home).then(|| io.target_near(listener, near)).flatten()?;
            // The connection may have nothing to send for a long time.
            io.stop_ahead(self.socket);
            Some(target)
        });
        let target = target.flatten();
        self.move_target.store(target.map_or(NO_MOVE_TARGET, Target::pack), Ordering::Relaxed);
        target.is_some()
    }

    /// Prepares the connection to move when it is next offered, if another processor should serve it.
    pub(crate) fn prepare_move(&self) {
        let Some(listener) = self.listener.filter(|_| !self.is_move_pending()) else { return };
        let target = try_with(|io| (io.home == self.home).then(|| io.next_target(listener)));
        if let Some(target) = target.flatten().flatten() {
            self.move_target.store(target.pack(), Ordering::Relaxed);
        }
    }

    /// Whether the connection will move when it is next offered while nothing is in flight.
    #[inline]
    pub(crate) fn is_move_pending(&self) -> bool {
        self.move_target.load(Ordering::Relaxed) != NO_MOVE_TARGET
    }

    /// Whether another processor has served the connection before.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Starts a request on this socket. It costs less than a [`request`](Self::request) and its first poll, between which
    /// the request moves.
    ///
    /// # Errors
    /// [`OwnerError`](super::OwnerError), and the errors of starting a request.
    #[inline]
    pub(crate) fn start<R: Into<Request>>(
        &self,
        request: impl FnOnce(Socket) -> R,
        waker: &Waker,
    ) -> io::Result<RequestFuture<R>> {
        RequestFuture::started(|| request(self.socket), self.home, waker)
    }

    /// Like [`request`](Self::request), but for requests that send.
    pub(crate) fn send<R>(
        &self,
        request: impl FnOnce(Socket) -> R,
        timeout: IoTimeout,
    ) -> RequestFuture<R> {
        self.stop_ahead_if_leaving();
        self.request(request, timeout)
    }

    /// Prepares for a request that sends.
    #[inline]
    pub(crate) fn stop_ahead_if_leaving(&self) {
        if self.is_move_pending() {
            self.stop_ahead();
        }
    }

    #[cold]
    fn stop_ahead(&self) {
        try_with(|io| (io.home == self.home).then(|| io.stop_ahead(self.socket)));
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
    ) -> RequestFuture<R> {
        RequestFuture::new(request(self.socket), timeout, Some(self.home))
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
    /// [`OwnerError`] on another processor and outside a processor, and the errors of `f`.
    pub(crate) fn driver<R>(
        &self,
        f: impl FnOnce(&mut dyn Driver, Socket) -> io::Result<R>,
    ) -> io::Result<R> {
        with_any(|io| match io {
            Some(io) if io.home == self.home => io.try_driver(|driver| f(driver, self.socket)),
            _ => Err(owner_error(self.home)),
        })
    }

    /// Steers new QUIC connections of the group of this socket. Has no effect on other processors.
    pub(crate) fn steer_connections(&self, sockets: u16) {
        try_with(|io| (io.home == self.home).then(|| io.add_quic_group(self.socket, sockets)));
    }

    /// Whether this thread runs the processor of the socket. The first check is cheaper. On that thread, it fails only
    /// between turns.
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        ProcessorId::current() == Some(self.home) || self.is_home_between_turns()
    }

    #[cold]
    fn is_home_between_turns(&self) -> bool {
        try_with(|io| io.home == self.home) == Some(true)
    }

    /// Sends the last bytes of a dropped stream, from any thread, and then drops the socket.
    pub(crate) fn send_last(self, bytes: Vec<u8>) {
        LastWrite { socket: self, rest: bytes }.end(Io::send_last);
    }

    /// Shuts down the write direction, on any thread. Errors are ignored.
    pub(crate) fn shutdown_write(&self) {
        let socket = self.socket;
        run_on_home(self.home, move |io| io.shutdown_write(socket));
    }
}

impl Io {
    /// Stops the driver's receive in advance, so that the connection can be detached.
    fn stop_ahead(&self, connection: Socket) {
        let _ = self.try_driver(|driver| {
            driver.stop_ahead(connection);
            Ok(())
        });
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
                io.placement.count_datagram_socket(-1);
            }
            let arrived = io.placement.closed(socket);
            io.close(socket);
            arrived.into_iter().for_each(|arrived| catch_panic(|| drop(arrived)));
        });
    }
}
