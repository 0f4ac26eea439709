//! Datagrams in flight: one operation per request.
//!
//! # Safety
//! Each operation is boxed and owns everything that its message header points to: the bytes or the buffer, the address,
//! the control message, and the header itself. The box keeps its address while the operation is in flight (see
//! `inflight`), and [`submission`](SendingDatagram::submission) sets all pointers again. A receive writes only to
//! initialised bytes of a buffer that no other code can access while the receive is in flight. Message headers, parts
//! and socket addresses of zeros are valid, as C programs use them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use io_uring::{opcode, squeue, types};
use socket2::{SockAddr, SockAddrStorage};

use crate::sockets::datagrams::SegmentControl;
use crate::user_bytes::UserBytes;
use crate::{Datagram, Socket, Token};

/// A datagram being sent.
pub(crate) struct SendingDatagram {
    pub(crate) token: Token,
    pub(crate) socket: Socket,
    fd: Rc<OwnedFd>,
    bytes: UserBytes,
    to: Option<SockAddr>,
    control: Option<SegmentControl>,
    part: libc::iovec,
    header: libc::msghdr,
}

/// A receive of a datagram.
pub(crate) struct ReceivingDatagram {
    pub(crate) token: Token,
    pub(crate) socket: Socket,
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
    pub(crate) fn new(
        token: Token,
        socket: Socket,
        fd: Rc<OwnedFd>,
        bytes: UserBytes,
        to: Option<SockAddr>,
        segment: Option<u16>,
    ) -> Self {
        let (part, header) = empty_header();
        let control = segment.map(SegmentControl::new);
        Self { token, socket, fd, bytes, to, control, part, header }
    }

    pub(crate) fn submission(&mut self) -> squeue::Entry {
        // The kernel only reads the bytes and the address, although the pointers are mutable.
        self.part.iov_base = self.bytes.as_ptr().cast_mut().cast();
        self.part.iov_len = self.bytes.len();
        if let Some(to) = &self.to {
            self.header.msg_name = to.as_ptr().cast_mut().cast();
            self.header.msg_namelen = to.len();
        }
        if let Some(control) = &mut self.control {
            self.header.msg_controllen = size_of_val(control) as _;
            self.header.msg_control = (&raw mut *control).cast();
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
    pub(crate) fn new(token: Token, socket: Socket, fd: Rc<OwnedFd>, buffer: Vec<u8>) -> Self {
        let (from, (part, header)) = (SockAddrStorage::zeroed(), empty_header());
        Self { token, socket, fd, buffer, from, part, header }
    }

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
    pub(crate) fn into_datagram(self, length: usize) -> io::Result<Datagram> {
        let Self { buffer: mut bytes, from, header, .. } = self;
        bytes.truncate(length);
        let length = header.msg_namelen.min(from.size_of());
        // SAFETY: the kernel wrote an address of this length; the rest is zeros.
        let from = unsafe { SockAddr::new(from, length) };
        let from = from.as_socket().ok_or_else(crate::sockets::address::no_ip_address)?;
        Ok(Datagram { bytes, from, truncated: header.msg_flags & libc::MSG_TRUNC != 0 })
    }
}
