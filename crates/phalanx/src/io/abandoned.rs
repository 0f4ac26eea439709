//! Requests whose futures were dropped: they are cancelled, or complete alone.

use std::io;
use std::mem::replace;
use std::time::Duration;

use phalanx_core::catch_panic;
use phalanx_driver::{Done, Socket};

use super::placement::Arrived;
use super::{Entry, HomeSocket, Io, State};

/// The longest time for which a write continues after its stream was dropped.
pub(super) const FINISH_LIMIT: Duration = Duration::from_secs(10);

impl Io {
    /// Drops the result of an abandoned request. Closes a new connection.
    pub(super) fn discard(&self, result: io::Result<Done>) {
        if let Ok(Done::Accepted(socket) | Done::Connected(socket)) = result {
            let arrived = self.place.take_arrived(socket);
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
            State::Finishing(socket) => {
                drop(requests);
                self.cancel(key);
                catch_panic(|| drop(socket));
            }
            State::Abandoned | State::Returning(_) => (),
        }
    }

    /// Lets a request complete although its future was dropped, for at most [`FINISH_LIMIT`], and closes its socket then.
    pub(super) fn finish_alone(&self, key: usize, socket: HomeSocket) {
        let mut requests = self.requests.borrow_mut();
        let waiting = |entry: &&mut Entry| matches!(entry.state, State::Waiting(_));
        match requests.get_mut(key).filter(waiting) {
            Some(entry) => {
                entry.expires = entry.expires.min(self.turn.get().saturating_add(FINISH_LIMIT));
                self.earliest.set(self.earliest.get().min(entry.expires));
                let before = replace(&mut entry.state, State::Finishing(socket));
                drop(requests);
                catch_panic(|| drop(before));
            }
            None => {
                drop(requests);
                self.abandon(key);
                catch_panic(|| drop(socket));
            }
        }
    }

    /// Cancels an accept of `listener` whose future was dropped. If it has completed, or completes before it is cancelled,
    /// its connection returns to the listener.
    pub(super) fn abandon_accept(&self, key: usize, listener: Socket) {
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
