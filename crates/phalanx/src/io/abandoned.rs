//! Requests whose futures were dropped. They are cancelled, or complete on their own.

use std::io;
use std::mem::replace;
use std::time::Duration;

use phalanx_core::{Session, catch_panic};
use phalanx_driver::{Done, Payload, Request, Socket, Token};

use super::placement::ReceivedConnection;
use super::{Entry, HomeSocket, Io, State, try_with, with};

/// The maximum time for which a write continues after its stream was dropped.
pub(super) const FINISH_LIMIT: Duration = Duration::from_secs(10);

/// The end of a dropped stream: a write in progress completes, the rest is sent, and then the socket is closed.
pub(super) struct LastWrite {
    pub(super) socket: HomeSocket,
    pub(super) rest: Vec<u8>,
}

impl LastWrite {
    /// Calls `end` on the processor of the socket.
    pub(super) fn end(self, end: impl FnOnce(&Io, Self) + Send + 'static) {
        let home = self.socket.home;
        if self.socket.is_home() {
            with(|io| end(io, self))
        } else {
            home.run_later(move || _ = try_with(|io| end(io, self)))
        }
    }
}

impl Io {
    /// Drops the result of an abandoned request. Closes a new connection.
    pub(super) fn discard(&self, result: io::Result<Done>) {
        if let Ok(Done::Accepted(socket) | Done::Connected(socket)) = result {
            let arrived = self.placement.take_arrived(socket);
            self.close(socket);
            catch_panic(|| drop(arrived));
        }
    }

    /// Cancels a request whose future was dropped, or drops its result.
    pub(super) fn abandon(&self, key: usize) {
        let mut requests = self.requests.borrow_mut();
        let Some(entry) = requests.get_mut(key) else { return };
        match replace(&mut entry.state, State::Abandoned) {
            State::Waiting(waker) => {
                drop(requests);
                self.cancel(key);
                catch_panic(|| drop(waker));
            }
            State::Done(result) => {
                let entry = requests.remove(key);
                drop(requests);
                self.discard(result);
                drop(entry);
            }
            State::Finishing(last) => {
                drop(requests);
                self.cancel(key);
                catch_panic(|| drop(last));
            }
            State::Abandoned | State::ReturningToBacklog(_) => (),
        }
    }

    /// Lets a write complete although its future was dropped, and then sends the `last` bytes. Takes at most
    /// [`FINISH_LIMIT`].
    pub(super) fn finish_alone(&self, key: usize, last: LastWrite) {
        let mut requests = self.requests.borrow_mut();
        let waiting = |entry: &&mut Entry| matches!(entry.state, State::Waiting(_));
        match requests.get_mut(key).filter(waiting) {
            Some(entry) => {
                entry.expires =
                    entry.expires.min(self.turn_began.get().saturating_add(FINISH_LIMIT));
                self.earliest.set(self.earliest.get().min(entry.expires));
                let before = replace(&mut entry.state, State::Finishing(Box::new(last)));
                drop(requests);
                catch_panic(|| drop(before));
            }
            None => {
                drop(requests);
                self.abandon(key);
                self.send_last(last);
            }
        }
    }

    /// Sends the last bytes of a dropped stream that has no write in progress. Takes at most [`FINISH_LIMIT`].
    pub(super) fn send_last(&self, last: LastWrite) {
        if self.closed.get() {
            return catch_panic(|| drop(last));
        }
        let expires = self.turn_began.get().saturating_add(FINISH_LIMIT);
        let _guard = Session::current().map(|session| session.guard());
        let state = State::Abandoned;
        self.send_rest(
            Entry { state, expires, ends_with_drain: false, cancelled: None, _guard },
            last,
        );
    }

    /// Sends the rest of a dropped stream's bytes, and then closes the socket.
    pub(super) fn send_rest(&self, mut entry: Entry, LastWrite { socket, rest }: LastWrite) {
        let driver = self.driver.try_borrow_mut();
        let (Ok(mut driver), false) = (driver, rest.is_empty()) else {
            catch_panic(|| drop((entry, socket)));
            return;
        };
        let request = Request::Send { socket: socket.socket(), payload: Payload::from(rest) };
        self.placement.traffic.starts(&request);
        self.earliest.set(self.earliest.get().min(entry.expires));
        entry.state = State::Finishing(Box::new(LastWrite { socket, rest: Vec::new() }));
        let key = self.requests.borrow_mut().insert(entry);
        driver.start(Token(key as u64), request);
    }

    /// Cancels an accept of `listener` whose future was dropped. If it has completed, or completes before it is
    /// cancelled, its connection returns to the listener.
    pub(super) fn abandon_accept(&self, key: usize, listener: Socket) {
        let mut requests = self.requests.borrow_mut();
        match requests.get_mut(key).map(|entry| &mut entry.state) {
            Some(state @ State::Waiting(_)) => {
                let before = replace(state, State::ReturningToBacklog(listener));
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

    /// Returns a connection to the listener that has accepted it, for its next accept. Closes it if the listener is
    /// closed.
    pub(super) fn give_back(&self, listener: Socket, connection: Socket) {
        let arrived = self.placement.take_arrived(connection);
        let returned = self.try_driver(|driver| {
            let detached = driver.detach(connection);
            driver.attach(listener, detached.ok_or(io::ErrorKind::ResourceBusy)?)
        });
        match (returned, arrived) {
            (Ok(connection), Some(arrived)) => {
                self.placement
                    .arrived
                    .borrow_mut()
                    .push(ReceivedConnection { connection, ..arrived });
            }
            (Ok(_), None) => (),
            (Err(_), arrived) => {
                self.close(connection);
                catch_panic(|| drop(arrived));
            }
        }
    }
}
