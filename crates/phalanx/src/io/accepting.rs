//! The future of an accept. If it is dropped, for example by a `select`, its connection returns to the listener.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use phalanx_driver::{Done, Request, Socket};

use super::request::Progress;
use super::{HomeSocket, IoTimeout, RequestFuture, run_on_home};

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
pub(crate) struct Accepting {
    listener: Socket,
    request: RequestFuture<Accept>,
}

impl HomeSocket {
    /// The next connection of this listener, until the program drains.
    pub(crate) fn accept(&self) -> Accepting {
        let timeout = IoTimeout::NONE.until_shutdown();
        let request = self.request(|listener| Accept { listener }, timeout);
        Accepting { listener: self.socket(), request }
    }
}

impl Future for Accepting {
    type Output = io::Result<Socket>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.request).poll(context))? {
            Done::Accepted(connection) => Poll::Ready(Ok(connection)),
            other => unreachable!("accept completed with {other:?}"),
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        if let Progress::InFlight { key, home } = self.request.end() {
            let listener = self.listener;
            run_on_home(home, move |io| io.abandon_accept(key, listener));
        }
    }
}
