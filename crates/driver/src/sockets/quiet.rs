//! Whether anything has arrived on a connection.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use socket2::SockRef;

/// Whether the kernel has no bytes, no end and no error for a receive. Takes nothing.
pub(crate) fn is_quiet(fd: BorrowedFd<'_>) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let found = SockRef::from(&fd).recv_with_flags(&mut byte, flags);
    matches!(found, Err(error) if error.kind() == ErrorKind::WouldBlock)
}
