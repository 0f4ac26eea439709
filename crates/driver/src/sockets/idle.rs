//! Checks for unread data on a connection, and for its end.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

/// Whether the kernel has neither bytes nor an end nor an error for a receive. Consumes nothing.
pub(crate) fn is_idle(fd: BorrowedFd<'_>) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let result = SockRef::from(&fd).recv_with_flags(&mut byte, flags);
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Whether the peer has shut down its write direction or the connection is broken. There may be unread bytes before the
/// end.
pub(crate) fn is_closed_by_peer(fd: BorrowedFd<'_>) -> bool {
    let mut ends = PollFlags::HUP | PollFlags::ERR;
    #[cfg(target_os = "linux")]
    ends.insert(PollFlags::RDHUP);
    let mut polled = [PollFd::new(&fd, ends)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(ends)
}
