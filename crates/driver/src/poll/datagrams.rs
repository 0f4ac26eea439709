//! Datagrams: they are sent in the order of their requests, and received one per request.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, recvmsg, send, sendto};

use super::{Pending, Poll};
use crate::sockets::datagrams::send_segments;
use crate::user_bytes::UserBytes;
use crate::{Datagram, Done, Socket, Token};

/// The requests on a datagram socket.
#[derive(Default)]
pub(super) struct Datagrams {
    receiving: Option<IncomingDatagram>,
    /// In the order in which they are sent. Each belongs to a request, so the caller bounds their number.
    sending: VecDeque<OutgoingDatagram>,
}

/// A datagram that waits for space in the socket's send buffer.
pub(super) struct OutgoingDatagram {
    token: Token,
    bytes: UserBytes,
    to: Option<SocketAddr>,
    segment: Option<u16>,
}

/// A receive that waits for a datagram.
struct IncomingDatagram {
    token: Token,
    buffer: Vec<u8>,
    max: usize,
}

impl OutgoingDatagram {
    pub(super) fn new(
        token: Token,
        bytes: Bytes,
        to: Option<SocketAddr>,
        segment: Option<u16>,
    ) -> Self {
        Self { token, bytes: bytes.into(), to, segment }
    }
}

impl Datagrams {
    pub(super) fn has_requests(&self) -> bool {
        self.receiving.is_some() || !self.sending.is_empty()
    }

    /// The tokens of all requests, which are removed.
    pub(super) fn tokens(self) -> Vec<Token> {
        let receiving = self.receiving.into_iter().map(|incoming| incoming.token);
        receiving.chain(self.sending.iter().map(|outgoing| outgoing.token)).collect()
    }

    /// Removes a cancelled request.
    pub(super) fn remove(&mut self, token: Token) {
        self.receiving.take_if(|incoming| incoming.token == token);
        self.sending.retain(|outgoing| outgoing.token != token);
    }
}

impl Poll {
    pub(super) fn send_datagram(
        &mut self,
        token: Token,
        socket: Socket,
        outgoing: OutgoingDatagram,
    ) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        state.datagrams_mut().sending.push_back(outgoing);
        self.completions.pending.insert(token, Pending::Datagram(socket));
        self.enqueue(socket);
    }

    pub(super) fn receive_datagram(
        &mut self,
        token: Token,
        socket: Socket,
        buffer: Vec<u8>,
        max: usize,
    ) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        let receiving = &mut state.datagrams_mut().receiving;
        if receiving.is_some() {
            return self.completions.reject(token, libc::EBUSY);
        }
        *receiving = Some(IncomingDatagram { token, buffer, max });
        self.completions.pending.insert(token, Pending::Datagram(socket));
        self.enqueue(socket);
    }

    /// Sends datagrams until the socket's send buffer is full.
    pub(super) fn try_send_datagrams(&mut self, socket: Socket) {
        loop {
            let state = self.sockets.get_mut(socket).expect("the caller looked");
            let Some(OutgoingDatagram { token, bytes, to, segment }) =
                state.datagrams.as_ref().and_then(|datagrams| datagrams.sending.front())
            else {
                return;
            };
            let token = *token;
            self.calls += 1;
            let sent = match (segment, to) {
                (Some(segment), to) => send_segments(state.fd.as_fd(), bytes, *to, *segment),
                (None, Some(to)) => {
                    sendto(&state.fd, bytes, SEND_FLAGS, to).map_err(io::Error::from)
                }
                (None, None) => send(&state.fd, bytes, SEND_FLAGS).map_err(io::Error::from),
            };
            let result = match sent {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.writable = false;
                    return;
                }
                Err(error) => Err(error),
                Ok(_) => Ok(Done::SentDatagram),
            };
            state.datagrams_mut().sending.pop_front();
            self.completions.finish(token, result);
        }
    }

    /// Receives one datagram, if one is waiting.
    pub(super) fn try_receive_datagram(&mut self, socket: Socket) {
        let state = self.sockets.get_mut(socket).expect("the caller looked");
        let Some(datagrams) = &mut state.datagrams else { return };
        let Some(IncomingDatagram { buffer, max, .. }) = &mut datagrams.receiving else { return };
        buffer.resize(*max, 0);
        let received = loop {
            self.calls += 1;
            let mut space = [IoSliceMut::new(buffer)];
            let mut ancillary = RecvAncillaryBuffer::default();
            match recvmsg(&state.fd, &mut space, &mut ancillary, RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    state.readable = false;
                    return;
                }
                received => break received,
            }
        };
        let incoming = datagrams.receiving.take().expect("found above");
        let result = received.map_err(io::Error::from).and_then(|received| {
            let mut bytes = incoming.buffer;
            bytes.truncate(received.bytes);
            let from = received.address.and_then(|from| SocketAddr::try_from(from).ok());
            let from = from.ok_or_else(crate::sockets::address::no_ip_address)?;
            let truncated = received.flags.contains(ReturnFlags::TRUNC);
            Ok(Done::Datagram(Box::new(Datagram { bytes, from, truncated })))
        });
        self.completions.finish(incoming.token, result);
    }
}

#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::empty();
