//! Operations that complete several times: accepting connections, and receiving bytes.

use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{opcode, squeue, types};

use crate::uring::ring::buffers::GROUP;

/// The multishot accept.
pub(crate) fn accept(fd: &OwnedFd) -> squeue::Entry {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    opcode::AcceptMulti::new(types::Fd(fd.as_raw_fd())).flags(flags).build()
}

/// The multishot receive, which yields to other operations after `multishot_limit` bytes.
pub(crate) fn receive(fd: &OwnedFd, multishot_limit: u32) -> squeue::Entry {
    opcode::RecvMulti::new(types::Fd(fd.as_raw_fd()), GROUP).len(multishot_limit).build()
}
