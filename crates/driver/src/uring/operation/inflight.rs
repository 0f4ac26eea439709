//! Operations in the kernel, and the memory that they need.
//!
//! Every operation stays here from its submission to its final completion, even if its requester is dropped.
//! It owns everything that its submission points to. All of that is on the heap, so it does not move when the
//! slab grows. It also owns the descriptor: a closed socket keeps its number until the last operation on it
//! has completed. So no operation and no cancellation can ever affect another file that has received the same
//! number.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use slab::Slab;

use crate::uring::operation::datagrams::{ReceivingDatagram, SendingDatagram};
use crate::uring::operation::file_sends::WaitingForSpace;
use crate::uring::operation::files::{Opening, Reading, Syncing, Writing};
use crate::uring::operation::sending::Sending;
use crate::{Socket, Token};

/// The user data of operations whose completions are ignored: cancellations.
pub(crate) const IGNORED: u64 = u64::MAX;

/// An operation in the kernel.
pub(crate) enum Operation {
    /// The multishot poll of the eventfd.
    Listen,
    /// The multishot accept of a listener.
    Accept {
        listener: Socket,
        fd: Rc<OwnedFd>,
    },
    /// The multishot receive of a socket, and the limit on consecutive bytes.
    Receive {
        socket: Socket,
        fd: Rc<OwnedFd>,
        run: u32,
    },
    Send(Sending),
    SendDatagram(Box<SendingDatagram>),
    ReceiveDatagram(Box<ReceivingDatagram>),
    /// The wait for space in a socket's send buffer.
    WaitForSpace(WaitingForSpace),
    Connect(Connecting),
    Open(Opening),
    Read(Reading),
    Write(Writing),
    Sync(Syncing),
}

/// A connection that is being opened.
pub(crate) struct Connecting {
    pub(crate) token: Token,
    pub(crate) fd: OwnedFd,
    pub(crate) address: Box<socket2::SockAddr>,
}

/// Operations, by the user data of their submission and completions.
#[derive(Default)]
pub(crate) struct Inflight {
    entries: Slab<Entry>,
    serial: u32,
    /// The number of datagrams that are being sent.
    datagrams: usize,
}

struct Entry {
    serial: u32,
    cancelled: bool,
    operation: Operation,
}

impl Inflight {
    /// Stores `operation` and returns its name, which is its user data.
    pub(crate) fn insert(&mut self, operation: Operation) -> u64 {
        // The serial is used only for the assertion in `key`. Its highest value is reserved for `IGNORED`.
        self.serial = (self.serial + 1) % u32::MAX;
        self.datagrams += usize::from(matches!(operation, Operation::SendDatagram(_)));
        let entry = Entry { serial: self.serial, cancelled: false, operation };
        (u64::from(self.serial) << 32) | self.entries.insert(entry) as u64
    }

    pub(crate) fn get_mut(&mut self, name: u64) -> &mut Operation {
        let key = self.key(name);
        &mut self.entries[key].operation
    }

    /// The socket of a receive; `None` for other operations.
    pub(crate) fn received_by(&self, name: u64) -> Option<Socket> {
        match self.entries[self.key(name)].operation {
            Operation::Receive { socket, .. } => Some(socket),
            _ => None,
        }
    }

    /// Removes an operation after its final completion.
    pub(crate) fn remove(&mut self, name: u64) -> Operation {
        let key = self.key(name);
        let operation = self.entries.remove(key).operation;
        self.datagrams -= usize::from(matches!(operation, Operation::SendDatagram(_)));
        operation
    }

    /// The names of the datagrams that are being sent on `socket`. Scans all operations if any datagram is
    /// being sent.
    pub(crate) fn datagrams_of(&self, socket: Socket) -> Vec<u64> {
        if self.datagrams == 0 {
            return Vec::new();
        }
        let named = self.entries.iter().filter_map(|(key, entry)| match &entry.operation {
            Operation::SendDatagram(sending) if sending.socket == socket => {
                Some((u64::from(entry.serial) << 32) | key as u64)
            }
            _ => None,
        });
        named.collect()
    }

    /// Marks `name` as cancelled. Returns false if it was already.
    pub(crate) fn cancel(&mut self, name: u64) -> bool {
        let key = self.key(name);
        !std::mem::replace(&mut self.entries[key].cancelled, true)
    }

    /// Marks all operations as cancelled.
    pub(crate) fn cancel_all(&mut self) {
        for (_, entry) in &mut self.entries {
            entry.cancelled = true;
        }
    }

    /// Whether `name` was cancelled.
    pub(crate) fn is_cancelled(&self, name: u64) -> bool {
        self.entries[self.key(name)].cancelled
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn key(&self, name: u64) -> usize {
        let key = (name & u64::from(u32::MAX)) as usize;
        assert_eq!(
            u64::from(self.entries[key].serial),
            name >> 32,
            "a completion of an unknown operation"
        );
        key
    }
}

/// The error of a cancelled or interrupted operation.
pub(crate) fn cancelled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}
