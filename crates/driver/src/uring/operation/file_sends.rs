//! Files being sent, and their waits for space in a socket's send buffer.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use io_uring::{opcode, squeue, types};
use slab::Slab;

use crate::files::sendfile::{FileSend, QueueDelays};
use crate::{Socket, Token};

/// Files that are being sent.
#[derive(Default)]
pub(crate) struct FileSends {
    pub(crate) sends: Slab<FileInFlight>,
    /// The files that can continue, in order, each with the time since which it could.
    pub(crate) ready: VecDeque<(usize, Instant)>,
    pub(crate) waits: QueueDelays,
}

/// A file that is being sent.
pub(crate) struct FileInFlight {
    pub(crate) token: Token,
    pub(crate) socket: Socket,
    pub(crate) fd: Rc<OwnedFd>,
    pub(crate) sending: FileSend,
    /// The user data of the wait for space in the socket, if there is one.
    pub(crate) armed: Option<u64>,
}

/// The wait for space in a socket, for the file with this key.
pub(crate) struct WaitingForSpace {
    pub(crate) fd: Rc<OwnedFd>,
    pub(crate) key: usize,
}

impl WaitingForSpace {
    pub(crate) fn submission(&self) -> squeue::Entry {
        opcode::PollAdd::new(types::Fd(self.fd.as_raw_fd()), libc::POLLOUT as u32).build()
    }
}

impl FileSends {
    /// Whether a file can continue.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn queue_delay(&mut self) -> Duration {
        self.waits.take()
    }

    pub(crate) fn mark_ready(&mut self, key: usize) {
        self.ready.push_back((key, Instant::now()));
    }
}
