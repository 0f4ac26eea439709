//! Datagrams in flight: one operation per request.
//!
//! # Safety
//! Each operation is boxed and owns everything that its message header points to: the bytes or the buffer, the
//! address, and the header itself. The box keeps its address while the operation is in flight (see `inflight`), and
//! [`submission`](SendingDatagram::submission) sets all pointers again. A receive writes only to initialised bytes of a
//! buffer that no other code can access while the receive is in flight. Message headers, parts and socket addresses of
//! zeros are valid, as C programs use them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use bytes::Bytes;
use io_uring::{opcode, squeue, types};
use socket2::{SockAddr, SockAddrStorage};

use crate::uring::operation::inflight::{Operation, cancelled};
use crate::uring::ring::queues::{Event, is_transient};
use crate::uring::{Pending, Uring};
use crate::user_bytes::UserBytes;
use crate::{Datagram, Done, Socket, Token};

/// A datagram that is sent.
pub(crate) struct SendingDatagram {
    token: Token,
    pub(crate) socket: Socket,
    fd: Rc<OwnedFd>,
    bytes: UserBytes,
    to: Option<SockAddr>,
    part: libc::iovec,
    header: libc::msghdr,
}

/// A datagram that is received.
pub(crate) struct ReceivingDatagram {
    token: Token,
    socket: Socket,
    fd: Rc<OwnedFd>,
    /// As long as the request's `max`.
    buffer: Vec<u8>,
    from: SockAddrStorage,
    part: libc::iovec,
    header: libc::msghdr,
}

fn empty_header() -> (libc::iovec, libc::msghdr) {
    // SAFETY: a msghdr of zeros is an empty message, an iovec of zeros an empty part.
    unsafe { (std::mem::zeroed(), std::mem::zeroed()) }
}

impl SendingDatagram {
    pub(crate) fn submission(&mut self) -> squeue::Entry {
        // The kernel only reads the bytes and the address, although the pointers are mutable.
        self.part.iov_base = self.bytes.as_ptr().cast_mut().cast();
        self.part.iov_len = self.bytes.len();
        if let Some(to) = &self.to {
            self.header.msg_name = to.as_ptr().cast_mut().cast();
            self.header.msg_namelen = to.len();
        }
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        let fd = types::Fd(self.fd.as_raw_fd());
        opcode::SendMsg::new(fd, ptr::from_ref(&self.header))
            .flags(libc::MSG_NOSIGNAL as u32)
            .build()
    }
}

impl ReceivingDatagram {
    pub(crate) fn submission(&mut self) -> squeue::Entry {
        self.part.iov_base = self.buffer.as_mut_ptr().cast();
        self.part.iov_len = self.buffer.len();
        self.header.msg_name = (&raw mut self.from).cast();
        self.header.msg_namelen = self.from.size_of();
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        let fd = types::Fd(self.fd.as_raw_fd());
        opcode::RecvMsg::new(fd, &raw mut self.header).build()
    }

    /// The datagram, after the kernel has written `length` bytes to the buffer.
    fn into_datagram(self, length: usize) -> io::Result<Datagram> {
        let Self { buffer: mut bytes, from, header, .. } = self;
        bytes.truncate(length);
        let length = header.msg_namelen.min(from.size_of());
        // SAFETY: the kernel wrote an address of this length; the rest is zeros.
        let from = unsafe { SockAddr::new(from, length) };
        let from = from.as_socket().ok_or_else(crate::sockets::address::no_ip_address)?;
        Ok(Datagram { bytes, from, truncated: header.msg_flags & libc::MSG_TRUNC != 0 })
    }
}

impl Uring {
    pub(crate) fn send_datagram(
        &mut self,
        token: Token,
        socket: Socket,
        datagram: Bytes,
        to: Option<SocketAddr>,
    ) {
        let bytes = UserBytes::from(datagram);
        let Some(state) = self.sockets.get(socket) else {
            return self.refuse(token, libc::EBADF);
        };
        let (fd, to, (part, header)) =
            (Rc::clone(&state.fd), to.map(SockAddr::from), empty_header());
        let sending = SendingDatagram { token, socket, fd, bytes, to, part, header };
        let name = self.launch(Operation::SendDatagram(Box::new(sending)));
        self.tokens.insert(token, Pending::Operation(name));
    }

    pub(crate) fn receive_datagram(
        &mut self,
        token: Token,
        socket: Socket,
        mut buffer: Vec<u8>,
        max: usize,
    ) {
        let Some(state) = self.sockets.get(socket) else {
            return self.refuse(token, libc::EBADF);
        };
        if state.receiving.armed.is_some() || state.receiving.waiting.is_some() {
            return self.refuse(token, libc::EBUSY);
        }
        buffer.resize(max, 0);
        let (fd, from, (part, header)) =
            (Rc::clone(&state.fd), SockAddrStorage::zeroed(), empty_header());
        let receiving = ReceivingDatagram { token, socket, fd, buffer, from, part, header };
        let name = self.launch(Operation::ReceiveDatagram(Box::new(receiving)));
        self.sockets.get_mut(socket).expect("found above").receiving.armed = Some(name);
        self.tokens.insert(token, Pending::Operation(name));
    }

    /// The completion of an operation on a datagram.
    pub(crate) fn datagram_completed(&mut self, name: u64, event: Event) {
        let mut outcome = event.outcome();
        if let Err(error) = &outcome
            && is_transient(error)
        {
            if !self.inflight.is_cancelled(name) {
                return self.relaunch(name);
            }
            outcome = Err(cancelled());
        }
        match self.inflight.remove(name) {
            Operation::SendDatagram(sending) => {
                self.finish(sending.token, outcome.map(|_| Done::SentDatagram));
            }
            Operation::ReceiveDatagram(receiving) => {
                let (token, socket) = (receiving.token, receiving.socket);
                if let Some(state) = self.sockets.get_mut(socket) {
                    state.receiving.armed = None;
                    // Only after a misuse: a stream's receive that came meanwhile.
                    self.arm(socket);
                }
                let datagram = outcome.and_then(|length| receiving.into_datagram(length as usize));
                self.finish(token, datagram.map(|datagram| Done::Datagram(Box::new(datagram))));
            }
            _ => unreachable!("the caller looked"),
        }
    }

    /// Cancels the datagrams of a closed socket that wait for space in its send buffer.
    pub(crate) fn abort_datagrams(&mut self, socket: Socket) {
        for name in self.inflight.datagrams_of(socket) {
            self.abort(name);
        }
    }
}
