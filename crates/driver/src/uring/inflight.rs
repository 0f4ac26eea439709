//! What the kernel is working on, and the memory that it needs for it.
//!
//! Every operation stays here from its submission to its final completion, whatever becomes of who
//! asked for it, and with it all that its submission points to: each such thing is on the heap, so
//! it does not move when the slab grows. It also holds the descriptor: a socket that is closed
//! meanwhile keeps its number until the last operation on it has ended, so no operation and no
//! cancellation can ever hit another file that got the same number.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use slab::Slab;

use super::datagrams::{ReceivingDatagram, SendingDatagram};
use super::files::{Opening, Reading, Syncing, Writing};
use super::sendfile::WaitingForSpace;
use super::sending::Sending;
use crate::{Socket, Token};

/// Completes operations that nobody waits for: cancellations.
pub(super) const IGNORED: u64 = u64::MAX;

/// What is at work in the kernel.
pub(super) enum Operation {
    /// The multishot poll of the eventfd.
    Listen,
    /// The multishot accept of a listener.
    Accept {
        listener: Socket,
        fd: Rc<OwnedFd>,
    },
    /// The multishot receive of a socket, and the bound on its runs.
    Receive {
        socket: Socket,
        fd: Rc<OwnedFd>,
        run: u32,
    },
    Send(Sending),
    SendDatagram(Box<SendingDatagram>),
    ReceiveDatagram(Box<ReceivingDatagram>),
    /// The wait for room in a socket.
    WaitForSpace(WaitingForSpace),
    Connect(Connecting),
    Open(Opening),
    Read(Reading),
    Write(Writing),
    Sync(Syncing),
}

/// A connection being made.
pub(super) struct Connecting {
    pub(super) token: Token,
    pub(super) fd: OwnedFd,
    pub(super) address: Box<socket2::SockAddr>,
}

/// The operations, by the number that goes with a submission and comes with its completions.
#[derive(Default)]
pub(super) struct Inflight {
    entries: Slab<Entry>,
    serial: u32,
    /// Datagrams that are being sent.
    datagrams: usize,
}

struct Entry {
    serial: u32,
    cancelled: bool,
    operation: Operation,
}

impl Inflight {
    /// Keeps `operation` and names it.
    pub(super) fn insert(&mut self, operation: Operation) -> u64 {
        // The serial only serves the assertion in `key`; its top value is left to `IGNORED`.
        self.serial = (self.serial + 1) % u32::MAX;
        self.datagrams += usize::from(matches!(operation, Operation::SendDatagram(_)));
        let entry = Entry { serial: self.serial, cancelled: false, operation };
        (u64::from(self.serial) << 32) | self.entries.insert(entry) as u64
    }

    pub(super) fn get_mut(&mut self, name: u64) -> &mut Operation {
        let key = self.key(name);
        &mut self.entries[key].operation
    }

    /// Whose bytes the operation receives, if it does.
    pub(super) fn received_by(&self, name: u64) -> Option<Socket> {
        match self.entries[self.key(name)].operation {
            Operation::Receive { socket, .. } => Some(socket),
            _ => None,
        }
    }

    /// Takes out an operation that has completed for the last time.
    pub(super) fn remove(&mut self, name: u64) -> Operation {
        let key = self.key(name);
        let operation = self.entries.remove(key).operation;
        self.datagrams -= usize::from(matches!(operation, Operation::SendDatagram(_)));
        operation
    }

    /// The names of the datagrams that are being sent on `socket`. Looks at all operations if there are any datagrams.
    pub(super) fn datagrams_of(&self, socket: Socket) -> Vec<u64> {
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

    /// Notes that `name` is to end early. False if that was noted before.
    pub(super) fn cancel(&mut self, name: u64) -> bool {
        let key = self.key(name);
        !std::mem::replace(&mut self.entries[key].cancelled, true)
    }

    /// Notes that everything is to end early.
    pub(super) fn cancel_all(&mut self) {
        for (_, entry) in &mut self.entries {
            entry.cancelled = true;
        }
    }

    /// Whether `name` is to end early.
    pub(super) fn is_cancelled(&self, name: u64) -> bool {
        self.entries[self.key(name)].cancelled
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn key(&self, name: u64) -> usize {
        let key = (name & u64::from(u32::MAX)) as usize;
        assert_eq!(u64::from(self.entries[key].serial), name >> 32, "a completion out of the blue");
        key
    }
}

/// What a cancelled or interrupted operation's owner is told.
pub(super) fn cancelled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}
