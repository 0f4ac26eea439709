//! Starting requests. No call is attempted before the next submit.

use std::io;

use super::sockets::{Sending, SendingFile};
use super::{Pending, Poll};
use crate::blocking::pool::Work;
use crate::files::sendfile::FileSend;
use crate::user_bytes::Outgoing;
use crate::{Done, Socket, Token};

impl Poll {
    pub(super) fn run_blocking(&mut self, token: Token, work: Work) {
        let changes_file = work.changes_a_file();
        let job = self.jobs.start(token, work);
        self.completions.pending.insert(token, Pending::Job { job, changes_file });
    }

    pub(super) fn send(&mut self, token: Token, socket: Socket, payload: Outgoing) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        if state.is_sending() {
            return self.completions.reject(token, libc::EBUSY);
        }
        if payload.is_empty() {
            return self.completions.complete(token, Ok(Done::Sent(payload.into_head())));
        }
        state.sending = Some(Sending { token, payload, sent: 0 });
        // If the socket is not ready, an event will queue it.
        let is_ready = state.writable;
        self.completions.pending.insert(token, Pending::Send(socket));
        if is_ready {
            self.enqueue(socket);
        }
    }

    pub(super) fn send_file(
        &mut self,
        token: Token,
        socket: Socket,
        sending: io::Result<FileSend>,
    ) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        if state.is_sending() {
            return self.completions.reject(token, libc::EBUSY);
        }
        match sending {
            Ok(sending) => {
                state.sending_file = Some(Box::new(SendingFile { token, sending, waits: None }));
                self.completions.pending.insert(token, Pending::Send(socket));
                self.enqueue(socket);
            }
            Err(error) => self.completions.complete(token, Err(error)),
        }
    }

    pub(super) fn receive(&mut self, token: Token, socket: Socket, max: u64, skips: bool) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        if state.receiving.is_some() {
            return self.completions.reject(token, libc::EBUSY);
        }
        state.receiving = Some(token);
        (state.max, state.skips) = (max, skips);
        // If the socket is not ready, an event will queue it.
        let is_ready = state.readable;
        self.completions.pending.insert(token, Pending::Receive(socket));
        if is_ready {
            self.enqueue(socket);
        }
    }

    pub(super) fn accept(&mut self, token: Token, listener: Socket) {
        if self.sockets.get(listener).is_none() {
            return self.completions.reject(token, libc::EBADF);
        }
        if let Some(connection) = self.attached.take(listener) {
            return self.completions.complete(token, Ok(Done::Accepted(connection)));
        }
        let state = self.sockets.get_mut(listener).expect("found above");
        state.accepting.push_back(token);
        self.completions.pending.insert(token, Pending::Accept(listener));
        self.enqueue(listener);
    }
}
