//! Starts requests. No call is attempted before the next submit.

use std::io;

use super::sockets::{Sending, SendingFile};
use super::{Pending, Poll};
use crate::blocking::pool::Work;
use crate::files::sendfile::FileSend;
use crate::user_bytes::Outgoing;
use crate::{Completion, Done, Socket, Token};

impl Poll {
    pub(super) fn run_blocking(&mut self, token: Token, work: Work) {
        let lasting = work.changes_a_file();
        let job = self.jobs.start(token, work);
        self.tokens.insert(token, Pending::Job { job, lasting });
    }

    pub(super) fn send(&mut self, token: Token, socket: Socket, payload: Outgoing) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.refuse(token, libc::EBADF);
        };
        if state.is_sending() {
            return self.refuse(token, libc::EBUSY);
        }
        if payload.is_empty() {
            return self.done.push(Completion::ok(token, Done::Sent(payload.into_head())));
        }
        state.sending = Some(Sending { token, payload, sent: 0 });
        // Otherwise an event queues it.
        let is_ready = state.writable;
        self.tokens.insert(token, Pending::Send(socket));
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
            return self.refuse(token, libc::EBADF);
        };
        if state.is_sending() {
            return self.refuse(token, libc::EBUSY);
        }
        match sending {
            Ok(sending) => {
                state.sending_file = Some(Box::new(SendingFile { token, sending, waits: None }));
                self.tokens.insert(token, Pending::Send(socket));
                self.enqueue(socket);
            }
            Err(error) => self.done.push(Completion { token, result: Err(error) }),
        }
    }

    pub(super) fn receive(&mut self, token: Token, socket: Socket, max: u64, skips: bool) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.refuse(token, libc::EBADF);
        };
        if state.receiving.is_some() {
            return self.refuse(token, libc::EBUSY);
        }
        state.receiving = Some(token);
        (state.max, state.skips) = (max, skips);
        // Otherwise an event queues it.
        let is_ready = state.readable;
        self.tokens.insert(token, Pending::Receive(socket));
        if is_ready {
            self.enqueue(socket);
        }
    }

    pub(super) fn accept(&mut self, token: Token, listener: Socket) {
        if self.sockets.get(listener).is_none() {
            return self.refuse(token, libc::EBADF);
        }
        if let Some(connection) = self.next_attached(listener) {
            return self.done.push(Completion::ok(token, Done::Accepted(connection)));
        }
        let state = self.sockets.get_mut(listener).expect("found above");
        state.accepting.push_back(token);
        self.tokens.insert(token, Pending::Accept(listener));
        self.enqueue(listener);
    }
}
