//! Operations that complete several times: accepting connections, and receiving bytes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;

use io_uring::{opcode, squeue, types};

use crate::uring::ring::buffers::GROUP;

/// The accept, of one connection or of any number.
pub(crate) fn accept(fd: &OwnedFd, once: bool) -> squeue::Entry {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = types::Fd(fd.as_raw_fd());
    if once {
        return opcode::Accept::new(fd, null_mut(), null_mut()).flags(flags).build();
    }
    opcode::AcceptMulti::new(fd).flags(flags).build()
}

/// The multishot receive, which yields to other operations after `multishot_limit` bytes.
pub(crate) fn receive(fd: &OwnedFd, multishot_limit: u32) -> squeue::Entry {
    opcode::RecvMulti::new(types::Fd(fd.as_raw_fd()), GROUP).len(multishot_limit).build()
}
