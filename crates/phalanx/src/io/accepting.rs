//! The future of an accept. If it is dropped, for example by a `select`, its connection returns to the listener.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use phalanx_driver::{Done, Request, Socket};

use super::request::Progress;
use super::{HomeSocket, Io, IoTimeout, RequestFuture, run_on_home};

/// The maximum number of immediate accepts in a sweep, so that a listener does not monopolise the processor.
pub(super) const ACCEPTS_PER_SWEEP: u32 = 16;

/// An accept, without the space that the largest [`Request`] needs.
struct Accept {
    listener: Socket,
}

impl From<Accept> for Request {
    fn from(Accept { listener }: Accept) -> Self {
        Self::Accept { listener }
    }
}

/// The future of one accept.
pub(crate) struct Accepting<'a> {
    listener: &'a HomeSocket,
    request: RequestFuture<Accept>,
}

impl HomeSocket {
    /// The next connection of this listener, until the program drains.
    pub(crate) fn accept(&self) -> Accepting<'_> {
        let timeout = IoTimeout::NONE.until_shutdown();
        let request = self.request(|listener| Accept { listener }, timeout);
        Accepting { listener: self, request }
    }
}

impl Io {
    /// Takes a connection of `listener` that has already arrived, unless this sweep has reached its limit of accepts. So
    /// a turn begins several connections.
    fn accept_now(&self, listener: Socket) -> io::Result<Option<Socket>> {
        let left = self.immediate_accepts_left.get();
        if left == 0 || self.drain_announced.get() {
            return Ok(None);
        }
        let accepted = self.try_driver(|driver| driver.accept_now(listener));
        if !matches!(accepted, Ok(None)) {
            self.immediate_accepts_left.set(left - 1);
        }
        accepted
    }
}

impl Future for Accepting<'_> {
    type Output = io::Result<Socket>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.request.unstarted().is_some() {
            let listener = self.listener;
            let accepted = listener.at_once(|io| io.accept_now(listener.socket()))?;
            if let Some(connection) = accepted.flatten() {
                self.request.end();
                return Poll::Ready(Ok(connection));
            }
        }
        match ready!(Pin::new(&mut self.request).poll(context))? {
            Done::Accepted(connection) => Poll::Ready(Ok(connection)),
            other => unreachable!("accept completed with {other:?}"),
        }
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        if let Progress::InFlight { key, home } = self.request.end() {
            let listener = self.listener.socket();
            run_on_home(home, move |io| io.abandon_accept(key, listener));
        }
    }
}
