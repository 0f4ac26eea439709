//! Accepting connections: one multishot operation per listener. It ends when no request waits, because other processors
//! may accept from the same socket, and a connection that this one has taken would wait until its next request. If other
//! processors are known to do so, each operation takes only one connection.
//!
//! # Safety
//! A descriptor that the kernel has created appears in exactly one completion, and is owned from there on.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;

use crate::uring::operation::inflight::Operation;
use crate::uring::ring::queues::Event;
use crate::uring::sockets::{ACCEPT_AHEAD, State};
use crate::uring::{Pending, Uring};
use crate::{Done, Socket, Token};

/// Adds a listener whose last accept request has ended, unless it is in the list.
pub(crate) fn note_unrequested(unrequested: &mut Vec<Socket>, listener: Socket) {
    if !unrequested.contains(&listener) {
        unrequested.push(listener);
    }
}

impl Uring {
    pub(crate) fn accept(&mut self, token: Token, listener: Socket) {
        let Some(state) = self.sockets.get_mut(listener) else {
            return self.completions.reject(token, libc::EBADF);
        };
        let accepting = state.accepting.get_or_insert_default();
        if let Some(connection) = accepting.ahead.pop_front() {
            return self.completions.complete(token, Ok(Done::Accepted(connection)));
        }
        accepting.waiting.push_back(token);
        self.completions.pending.insert(token, Pending::Accept(listener));
        self.arm_accept(listener);
    }

    /// Makes each accept of `listener` take only one connection.
    pub(crate) fn share_listener(&mut self, listener: Socket) {
        let state = self.sockets.get_mut(listener).expect("an open socket");
        state.accepting.get_or_insert_default().is_shared = true;
    }

    /// Starts the accept of `listener`, if a request waits and the accept is not running.
    fn arm_accept(&mut self, listener: Socket) {
        let Some(state) = self.sockets.get_mut(listener) else { return };
        let Some(accepting) = &state.accepting else { return };
        if accepting.waiting.is_empty() || accepting.armed.is_some() {
            return;
        }
        let (fd, once) = (Rc::clone(&state.fd), accepting.is_shared);
        let user_data = self.launch(Operation::Accept { listener, fd, once });
        let state = self.sockets.get_mut(listener).expect("found above");
        state.accepting.as_mut().expect("found above").armed = Some(user_data);
    }

    /// Cancels the accepts that no request waits for, once the caller has seen all results and could request another
    /// connection.
    pub(crate) fn stop_accepts(&mut self) {
        if !self.completions.done.is_empty() {
            return;
        }
        while let Some(listener) = self.unrequested.pop() {
            let accepting = self.sockets.get(listener).and_then(|state| state.accepting.as_ref());
            if let Some(accepting) = accepting
                && accepting.waiting.is_empty()
                && let Some(user_data) = accepting.armed
            {
                self.abort(user_data);
            }
        }
    }

    /// Handles a completion of the accept of `listener`.
    pub(crate) fn accepted(&mut self, user_data: u64, listener: Socket, event: Event) {
        let outcome = event.outcome().map(|fd| {
            // SAFETY: the kernel has just created this descriptor for us.
            unsafe { OwnedFd::from_raw_fd(fd as i32) }
        });
        if !event.more() {
            self.inflight.remove(user_data);
        }
        let state = self.sockets.get_mut(listener);
        let Some(accepting) = state.and_then(|state| state.accepting.as_mut()) else { return };
        if !event.more() {
            accepting.armed = None;
        }
        let waiting = accepting.waiting.pop_front();
        if waiting.is_some() && accepting.waiting.is_empty() {
            note_unrequested(&mut self.unrequested, listener);
        }
        match (outcome, waiting) {
            (Ok(fd), Some(token)) => {
                let connection = self.sockets.insert(State::new(fd));
                self.completions.finish(token, Ok(Done::Accepted(connection)));
            }
            (Ok(fd), None) => self.keep(listener, fd),
            (Err(error), Some(token)) => match error.raw_os_error() {
                // The driver cancelled the accept because it was too far ahead of the requests, or a client has left.
                Some(libc::ECANCELED | libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => {
                    accepting.waiting.push_front(token);
                }
                _ => self.completions.finish(token, Err(error)),
            },
            // The next request gets the error again.
            (Err(_), None) => {}
        }
        self.arm_accept(listener);
    }

    /// Completes an accept of `listener` with a connection that another driver has accepted.
    pub(crate) fn accept_detached(&mut self, listener: Socket, fd: OwnedFd) -> io::Result<Socket> {
        let state = self.sockets.open_mut(listener)?;
        let accepting = state.accepting.get_or_insert_default();
        let waiting = accepting.waiting.pop_front();
        if waiting.is_some() && accepting.waiting.is_empty() {
            note_unrequested(&mut self.unrequested, listener);
        }
        let connection = self.sockets.insert(State::new(fd));
        match waiting {
            Some(token) => self.completions.finish(token, Ok(Done::Accepted(connection))),
            None => {
                let state = self.sockets.get_mut(listener).expect("found above");
                let accepting = state.accepting.as_mut().expect("made above");
                accepting.ahead.push_back(connection);
            }
        }
        Ok(connection)
    }

    /// Stores a connection until it is requested. If there are many, the accept is cancelled, and further
    /// connections stay in the kernel.
    fn keep(&mut self, listener: Socket, fd: OwnedFd) {
        let connection = self.sockets.insert(State::new(fd));
        let state = self.sockets.get_mut(listener).expect("the caller has found it");
        let accepting = state.accepting.as_mut().expect("the caller has found it");
        accepting.ahead.push_back(connection);
        if accepting.ahead.len() >= ACCEPT_AHEAD
            && let Some(user_data) = accepting.armed
        {
            self.abort(user_data);
        }
    }
}
