//! The future of an accept. If it is dropped, for example by a `select`, its connection returns to the listener.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use phalanx_driver::{Done, Request, Socket};

use super::request::Progress;
use super::{HomeSocket, Io, IoTimeout, RequestFuture, run_on_home};

/// An accept, with the first steps of its connection, takes about as long as this many sends.
const SENDS_OF_AN_ACCEPT: u32 = 4;

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
    /// Takes a connection of `listener` that has already arrived, unless this sweep has made too many system calls. So a
    /// turn begins many connections.
    fn accept_now(&self, listener: Socket) -> io::Result<Option<Socket>> {
        let left = self.immediate_calls_left.get();
        if left == 0 || self.drain_announced.get() {
            return Ok(None);
        }
        let accepted = self.try_driver(|driver| driver.accept_now(listener));
        self.immediate_calls_left.set(left.saturating_sub(SENDS_OF_AN_ACCEPT));
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
