//! Sending and receiving datagrams.

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use socket2::SockAddr;

use crate::completions::cancelled;
use crate::uring::operation::datagrams::{ReceivingDatagram, SendingDatagram};
use crate::uring::operation::inflight::Operation;
use crate::uring::requests::queued::QueuedDatagram;
use crate::uring::ring::queues::{Event, is_transient};
use crate::uring::{Pending, Uring};
use crate::user_bytes::UserBytes;
use crate::{Done, Socket, Token};

impl Uring {
    pub(crate) fn send_datagram(
        &mut self,
        token: Token,
        socket: Socket,
        datagram: Bytes,
        (to, segment): (Option<SocketAddr>, Option<u16>),
    ) {
        let bytes = UserBytes::from(datagram);
        let Some(state) = self.sockets.get(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        let (fd, to) = (Rc::clone(&state.fd), to.map(SockAddr::from));
        let sending = SendingDatagram::new(token, socket, fd, bytes, to, segment);
        let user_data = self.launch(Operation::SendDatagram(Box::new(sending)));
        self.completions.pending.insert(token, Pending::Operation(user_data));
    }

    pub(crate) fn receive_datagram(
        &mut self,
        token: Token,
        socket: Socket,
        mut buffer: Vec<u8>,
        max: usize,
    ) {
        let Some(state) = self.sockets.get(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        if state.receiving.armed.is_some() || state.receiving.waiting.is_some() {
            return self.queue_receive(socket, QueuedDatagram { token, buffer, max });
        }
        buffer.resize(max, 0);
        let receiving = ReceivingDatagram::new(token, socket, Rc::clone(&state.fd), buffer);
        let user_data = self.launch(Operation::ReceiveDatagram(Box::new(receiving)));
        self.sockets.get_mut(socket).expect("found above").receiving.armed = Some(user_data);
        self.completions.pending.insert(token, Pending::Operation(user_data));
    }

    /// The completion of an operation on a datagram.
    pub(crate) fn datagram_completed(&mut self, user_data: u64, event: Event) {
        let mut outcome = event.outcome();
        if let Err(error) = &outcome
            && is_transient(error)
        {
            if !self.inflight.is_cancelled(user_data) {
                return self.relaunch(user_data);
            }
            outcome = Err(cancelled());
        }
        match self.inflight.remove(user_data) {
            Operation::SendDatagram(sending) => {
                self.completions.finish(sending.token, outcome.map(|_| Done::SentDatagram));
            }
            Operation::ReceiveDatagram(receiving) => {
                let (token, socket) = (receiving.token, receiving.socket);
                let datagram = outcome.and_then(|length| receiving.into_datagram(length as usize));
                self.completions
                    .finish(token, datagram.map(|datagram| Done::Datagram(Box::new(datagram))));
                if let Some(state) = self.sockets.get_mut(socket) {
                    state.receiving.armed = None;
                    let is_queued = state.queued.is_some();
                    // This happens only after a misuse: a stream's receive was requested in the meantime.
                    self.arm(socket);
                    if is_queued {
                        self.start_queued_receive(socket);
                    }
                }
            }
            _ => unreachable!("the caller looked"),
        }
    }

    /// Cancels the datagrams of a closed socket that wait for space in its send buffer.
    pub(crate) fn abort_datagrams(&mut self, socket: Socket) {
        for user_data in self.inflight.datagrams_of(socket) {
            self.abort(user_data);
        }
    }
}
