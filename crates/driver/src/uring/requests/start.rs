//! Starting requests, one method for each kind.

use std::io;
use std::rc::Rc;

use crate::uring::operation::inflight::Operation;
use crate::uring::operation::sending::Sending;
use crate::uring::requests::queued::{QueuedContent, QueuedSend};
use crate::uring::{Pending, Uring};
use crate::user_bytes::Outgoing;
use crate::{Done, Socket, Token};

impl Uring {
    pub(crate) fn send(&mut self, token: Token, socket: Socket, payload: Outgoing) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        if state.is_sending() {
            let content = QueuedContent::Bytes(payload);
            return self.queue_send(socket, QueuedSend { token, content });
        }
        if payload.is_empty() {
            return self.completions.complete(token, Ok(Done::Sent(payload.into_head())));
        }
        let fd = Rc::clone(&state.fd);
        let sending = Sending { token, socket, fd, payload, sent: 0, message: None };
        let user_data = self.launch_send(sending);
        self.sockets.get_mut(socket).expect("found above").sending = Some(user_data);
        self.completions.pending.insert(token, Pending::Operation(user_data));
    }

    pub(crate) fn start_or_fail(&mut self, token: Token, request: io::Result<Operation>) {
        match request {
            Ok(operation) => {
                let user_data = self.launch(operation);
                self.completions.pending.insert(token, Pending::Operation(user_data));
            }
            Err(error) => self.completions.complete(token, Err(error)),
        }
    }
}
