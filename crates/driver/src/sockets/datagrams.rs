//! Batched system calls for datagrams, and the kernel's count of dropped datagrams. Only Linux has these calls.
//!
//! # Safety
//! `getsockopt` writes to a value of the length that is passed with it. `recvmmsg` writes to headers, and to buffers
//! and addresses that the headers point to, with their lengths. All are alive and exclusively borrowed during the
//! calls. Any bytes are valid in integers and buffers; headers, parts and addresses of zeros are valid, as C programs
//! use them. A control message has no uninitialised padding, because it was zeroed before its fields were set.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The maximum number of datagrams that one call receives.
pub const MAX_BATCH: usize = 32;

/// Datagrams that were received together, and the memory for them.
#[derive(Debug)]
pub struct DatagramBatch {
    bytes: Vec<u8>,
    /// The memory for each datagram, in bytes.
    max: usize,
    received: Vec<Received>,
}

/// A datagram in a batch.
#[derive(Debug)]
struct Received {
    length: usize,
    from: SocketAddr,
    truncated: bool,
}

impl DatagramBatch {
    /// Allocates memory for [`MAX_BATCH`] datagrams of up to `max` bytes.
    ///
    /// # Panics
    /// If `max` is zero.
    pub fn new(max: usize) -> Self {
        assert!(max > 0, "the size of a datagram must be above zero");
        Self { bytes: vec![0; MAX_BATCH * max], max, received: Vec::with_capacity(MAX_BATCH) }
    }

    /// The datagrams, with their senders. A datagram that was too long is `None`, because its end was lost.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&[u8]>, SocketAddr)> {
        self.bytes.chunks(self.max).zip(&self.received).map(|(bytes, received)| {
            ((!received.truncated).then(|| &bytes[..received.length]), received.from)
        })
    }

    /// The number of datagrams.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Whether there may be more datagrams than in the batch.
    pub fn is_full(&self) -> bool {
        self.len() == MAX_BATCH
    }

    /// Forgets the datagrams.
    pub(crate) fn clear(&mut self) {
        self.received.clear();
    }

    /// Adds a datagram. `receive` writes it to the given memory, and returns its length, its sender, and whether its
    /// end was lost.
    pub(crate) fn push(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<(usize, SocketAddr, bool)>,
    ) -> io::Result<()> {
        let at = self.received.len() * self.max;
        let (length, from, truncated) = receive(&mut self.bytes[at..at + self.max])?;
        self.received.push(Received { length, from, truncated });
        Ok(())
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{SegmentControl, has_segments, receive_now, send_segments, udp_drops};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{has_segments, receive_now, send_segments, udp_drops};

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::{size_of, size_of_val, zeroed};
    use std::os::fd::{AsFd, AsRawFd};

    use socket2::{MsgHdr, SockAddr, SockAddrStorage, SockRef};

    use super::*;

    /// A control message that divides the bytes of a send into datagrams (`UDP_SEGMENT`).
    #[repr(C)]
    pub(crate) struct SegmentControl {
        header: libc::cmsghdr,
        segment: u16,
        padding: [u8; size_of::<usize>() - size_of::<u16>()],
    }

    impl SegmentControl {
        pub(crate) fn new(segment: u16) -> Self {
            // SAFETY: a control message of zeros is valid.
            let mut control: Self = unsafe { zeroed() };
            control.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
            control.header.cmsg_level = libc::SOL_UDP;
            control.header.cmsg_type = libc::UDP_SEGMENT;
            control.segment = segment;
            control
        }

        fn bytes(&self) -> &[u8] {
            // SAFETY: the bytes of `self`, all of which are initialised.
            unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of_val(self)) }
        }
    }

    /// Whether the kernel can divide the bytes of a send into datagrams.
    pub(crate) fn has_segments(fd: BorrowedFd<'_>) -> bool {
        let mut value: libc::c_int = 0;
        option(fd, (libc::SOL_UDP, libc::UDP_SEGMENT), &mut value).is_ok()
    }

    /// Sends `bytes` as datagrams of `segment` bytes, of which the last may be shorter, in one system call.
    ///
    /// # Errors
    /// The errors of `sendmsg(2)`, such as `EINVAL` or `EIO` if the kernel or the network device cannot divide them.
    pub(crate) fn send_segments(
        fd: BorrowedFd<'_>,
        bytes: &[u8],
        to: Option<SocketAddr>,
        segment: u16,
    ) -> io::Result<usize> {
        let (buffers, control) = ([io::IoSlice::new(bytes)], SegmentControl::new(segment));
        let to = to.map(SockAddr::from);
        let mut message = MsgHdr::new().with_buffers(&buffers).with_control(control.bytes());
        if let Some(to) = &to {
            message = message.with_addr(to);
        }
        SockRef::from(&fd.as_fd()).sendmsg(&message, libc::MSG_NOSIGNAL)
    }

    /// Adds the datagrams that have arrived to `batch`, which must be empty, in one system call.
    ///
    /// # Errors
    /// The errors of `recvmmsg(2)`.
    pub(crate) fn receive_now(fd: BorrowedFd<'_>, batch: &mut DatagramBatch) -> io::Result<()> {
        let mut addresses = [(); MAX_BATCH].map(|()| SockAddrStorage::zeroed());
        // SAFETY: parts and headers of zeros are valid.
        let (mut parts, mut headers): ([libc::iovec; MAX_BATCH], [libc::mmsghdr; MAX_BATCH]) =
            unsafe { zeroed() };
        let buffers = batch.bytes.chunks_exact_mut(batch.max);
        let slots = headers.iter_mut().zip(&mut parts).zip(&mut addresses).zip(buffers);
        for (((header, part), address), buffer) in slots {
            part.iov_base = buffer.as_mut_ptr().cast();
            part.iov_len = buffer.len();
            let header = &mut header.msg_hdr;
            header.msg_namelen = address.size_of();
            header.msg_name = (&raw mut *address).cast();
            (header.msg_iov, header.msg_iovlen) = (part, 1);
        }
        let received = loop {
            // SAFETY: the headers point to buffers, parts and addresses of these lengths, which nothing else uses
            // during the call.
            let received = unsafe {
                libc::recvmmsg(
                    fd.as_raw_fd(),
                    headers.as_mut_ptr(),
                    MAX_BATCH as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                    std::ptr::null_mut(),
                )
            };
            if received >= 0 {
                break received;
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => (),
                error if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                error => return Err(error),
            }
        };
        for (header, address) in headers.iter().zip(addresses).take(received as usize) {
            let length = header.msg_hdr.msg_namelen.min(address.size_of());
            // SAFETY: the kernel wrote an address of this length; the rest is zeros.
            let from = unsafe { SockAddr::new(address, length) };
            let from = from.as_socket().ok_or_else(crate::sockets::address::no_ip_address)?;
            let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let length = (header.msg_len as usize).min(batch.max);
            batch.received.push(Received { length, from, truncated });
        }
        Ok(())
    }

    /// The number of datagrams that the kernel dropped because the socket's receive buffer was full, since the socket
    /// was created. The counter has 32 bits and wraps.
    ///
    /// # Errors
    /// The errors of `getsockopt(2)`.
    pub(crate) fn udp_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
        /// Values of `SO_MEMINFO`, and the index of the drop counter (`SK_MEMINFO_DROPS`).
        const VALUES: usize = 9;
        const DROPS: usize = 8;

        let mut values = [0_u32; VALUES];
        option(fd, (libc::SOL_SOCKET, libc::SO_MEMINFO), &mut values)?;
        Ok(values[DROPS])
    }

    /// Reads the value of an option: an integer, or an array of integers.
    fn option<T: Copy>(
        fd: BorrowedFd<'_>,
        (level, name): (libc::c_int, libc::c_int),
        value: &mut T,
    ) -> io::Result<()> {
        let mut length = size_of_val(value) as libc::socklen_t;
        let value = (&raw mut *value).cast();
        // SAFETY: the kernel writes at most `length` bytes to the value, and the new length to `length`. Both are alive
        // and exclusively borrowed; any bytes are valid in the integers that the callers pass.
        match unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value, &raw mut length) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::*;

    pub(crate) fn has_segments(_: BorrowedFd<'_>) -> bool {
        false
    }

    pub(crate) fn send_segments(
        _: BorrowedFd<'_>,
        _: &[u8],
        _: Option<SocketAddr>,
        _: u16,
    ) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn receive_now(_: BorrowedFd<'_>, _: &mut DatagramBatch) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn udp_drops(_: BorrowedFd<'_>) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
