//! Accepts. A connection whose accept was dropped, for example by a `select`, returns to its listener.

use std::future::Future;
use std::io;
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use phalanx_core::catch_panic;
use phalanx_driver::{Done, Request, Socket};

use super::placement::Arrived;
use super::request::Progress;
use super::{HomeSocket, Io, IoTimeout, Requested, State, release};

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
    request: Requested<Accept>,
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
        if let Progress::Flying { key, home } = self.request.end() {
            let listener = self.listener;
            release(home, move |io| io.abandon_accept(key, listener));
        }
    }
}

impl Io {
    /// Cancels an accept of `listener` whose future was dropped. If it has completed, or completes before it is cancelled,
    /// its connection returns to the listener.
    fn abandon_accept(&self, key: usize, listener: Socket) {
        let mut requests = self.requests.borrow_mut();
        match requests.get_mut(key).map(|entry| &mut entry.state) {
            Some(state @ State::Waiting(_)) => {
                let before = replace(state, State::Returning(listener));
                drop(requests);
                self.cancel(key);
                catch_panic(|| drop(before));
            }
            Some(State::Done(Ok(Done::Accepted(connection)))) => {
                let connection = *connection;
                let entry = requests.remove(key);
                drop(requests);
                self.give_back(listener, connection);
                drop(entry);
            }
            _ => {
                drop(requests);
                self.abandon(key);
            }
        }
    }

    /// Returns a connection to the listener that has accepted it, for its next accept. Closes it if the listener is closed.
    pub(super) fn give_back(&self, listener: Socket, connection: Socket) {
        let arrived = self.place.take_arrived(connection);
        let returned = self.try_driver(|driver| {
            let detached = driver.detach(connection);
            driver.take_over(listener, detached.ok_or(io::ErrorKind::ResourceBusy)?)
        });
        match (returned, arrived) {
            (Ok(connection), Some(arrived)) => {
                self.place.arrived.borrow_mut().push(Arrived { connection, ..arrived });
            }
            (Ok(_), None) => (),
            (Err(_), arrived) => {
                self.close(connection);
                catch_panic(|| drop(arrived));
            }
        }
    }
}
