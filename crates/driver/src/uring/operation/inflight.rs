//! Operations in the kernel, and the memory that they need.
//!
//! Every operation stays here from its submission to its final completion, even if the code that requested it is gone.
//! It owns everything that its submission points to. All of that is on the heap, so it does not move when the slab
//! grows. It also owns the descriptor: a closed socket keeps its number until the last operation on it has completed.
//! So no operation and no cancellation can ever affect another file that has received the same number.

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
    PollWakeEvent,
    /// The accept of a listener.
    Accept {
        listener: Socket,
        fd: Rc<OwnedFd>,
        /// Whether it takes only one connection.
        once: bool,
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

/// The multishot receive of a socket. Receives have a separate slab, because each idle connection has one, and other
/// operations are three times as large.
pub(crate) struct Receive {
    pub(crate) socket: Socket,
    pub(crate) fd: Rc<OwnedFd>,
    /// The limit on consecutive bytes.
    pub(crate) multishot_limit: u32,
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
    entries: Slab<Entry<Operation>>,
    receives: Slab<Entry<Receive>>,
    serial: u32,
    /// The number of datagrams that are being sent.
    datagrams: usize,
}

struct Entry<O> {
    serial: u32,
    cancelled: bool,
    operation: O,
}

/// The part of the user data that is the serial, shifted.
const SERIAL_SHIFT: u32 = 32;

/// The part of the user data that tells receives from other operations.
const RECEIVE: u64 = 1 << 31;

impl Inflight {
    /// Stores `operation`. Returns its user data, which identifies it.
    pub(crate) fn insert(&mut self, operation: Operation) -> u64 {
        self.datagrams += usize::from(matches!(operation, Operation::SendDatagram(_)));
        let serial = self.next_serial();
        let key = self.entries.insert(Entry { serial, cancelled: false, operation }) as u64;
        (u64::from(serial) << SERIAL_SHIFT) | key
    }

    /// Stores a receive. Returns its user data.
    pub(crate) fn insert_receive(&mut self, operation: Receive) -> u64 {
        let serial = self.next_serial();
        let key = self.receives.insert(Entry { serial, cancelled: false, operation }) as u64;
        (u64::from(serial) << SERIAL_SHIFT) | RECEIVE | key
    }

    /// The serial is used only for the assertion in `key`. Its highest value is reserved for `IGNORED`.
    fn next_serial(&mut self) -> u32 {
        self.serial = (self.serial + 1) % u32::MAX;
        self.serial
    }

    /// An operation that is not a receive.
    pub(crate) fn get_mut(&mut self, user_data: u64) -> &mut Operation {
        let key = key(&self.entries, user_data);
        &mut self.entries[key].operation
    }

    /// A receive; `None` for other operations.
    #[inline]
    pub(crate) fn receive(&self, user_data: u64) -> Option<&Receive> {
        let is_receive = user_data & RECEIVE != 0;
        is_receive.then(|| &self.receives[key(&self.receives, user_data)].operation)
    }

    /// Removes an operation that is not a receive, after its final completion.
    pub(crate) fn remove(&mut self, user_data: u64) -> Operation {
        let key = key(&self.entries, user_data);
        let operation = self.entries.remove(key).operation;
        self.datagrams -= usize::from(matches!(operation, Operation::SendDatagram(_)));
        operation
    }

    /// Removes a receive after its final completion.
    pub(crate) fn remove_receive(&mut self, user_data: u64) -> Receive {
        let key = key(&self.receives, user_data);
        self.receives.remove(key).operation
    }

    fn cancelled(&mut self, user_data: u64) -> &mut bool {
        if user_data & RECEIVE == 0 {
            let key = key(&self.entries, user_data);
            return &mut self.entries[key].cancelled;
        }
        let key = key(&self.receives, user_data);
        &mut self.receives[key].cancelled
    }

    /// The user data of the datagrams that are being sent on `socket`. Scans all operations if any datagram is
    /// being sent.
    pub(crate) fn datagrams_of(&self, socket: Socket) -> Vec<u64> {
        if self.datagrams == 0 {
            return Vec::new();
        }
        let named = self.entries.iter().filter_map(|(key, entry)| match &entry.operation {
            Operation::SendDatagram(sending) if sending.socket == socket => {
                Some((u64::from(entry.serial) << SERIAL_SHIFT) | key as u64)
            }
            _ => None,
        });
        named.collect()
    }

    /// Marks an operation as cancelled. Returns false if it was already cancelled.
    pub(crate) fn cancel(&mut self, user_data: u64) -> bool {
        !std::mem::replace(self.cancelled(user_data), true)
    }

    /// Marks all operations as cancelled.
    pub(crate) fn cancel_all(&mut self) {
        self.entries.iter_mut().for_each(|(_, entry)| entry.cancelled = true);
        self.receives.iter_mut().for_each(|(_, entry)| entry.cancelled = true);
    }

    /// Whether an operation was cancelled.
    pub(crate) fn is_cancelled(&mut self, user_data: u64) -> bool {
        *self.cancelled(user_data)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.receives.len()
    }
}

/// The key of an operation in its slab.
#[inline]
fn key<O>(all: &Slab<Entry<O>>, user_data: u64) -> usize {
    let key = (user_data & (RECEIVE - 1)) as usize;
    let serial = u64::from(all[key].serial);
    assert_eq!(serial, user_data >> SERIAL_SHIFT, "a completion of an unknown operation");
    key
}
