//! A socket's cached readiness, and who waits on it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::datagrams::Datagrams;
use crate::Token;
use crate::sendfile::FileSend;
use crate::user_bytes::Outgoing;

/// One socket in the driver's care.
pub(super) struct State {
    pub(super) fd: OwnedFd,
    /// The last call did not say otherwise since the kernel said so.
    pub(super) readable: bool,
    /// The same; assumed of a new socket, since its send buffer is empty.
    pub(super) writable: bool,
    /// There will be no further edge: from here on a short receive does not clear `readable`.
    pub(super) read_closed: bool,
    /// Whether the socket is in the driver's queue.
    pub(super) queued: bool,
    /// Whether the socket is in the list of those that wait for a buffer.
    pub(super) starved: bool,
    pub(super) receiving: Option<Token>,
    /// What the receive wants.
    pub(super) wanted: Wanted,
    pub(super) sending: Option<Sending>,
    /// As `sending`, of a file; never both. Boxed, since most sockets never have it.
    pub(super) sending_file: Option<Box<SendingFile>>,
    pub(super) connecting: Option<Token>,
    pub(super) accepting: VecDeque<Token>,
    /// Only datagram sockets have it.
    pub(super) datagrams: Option<Box<Datagrams>>,
}

/// What a receive wants.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// At most this many bytes.
    Bytes(usize),
    /// To discard at most this many bytes.
    Skip(u64),
}

/// A payload on its way.
pub(super) struct Sending {
    pub(super) token: Token,
    pub(super) payload: Outgoing,
    pub(super) sent: usize,
}

/// A file on its way.
pub(super) struct SendingFile {
    pub(super) token: Token,
    pub(super) sending: FileSend,
    /// Since when it could have gone on, if not only just now.
    pub(super) waits: Option<Instant>,
}

impl State {
    pub(super) fn new(fd: OwnedFd) -> State {
        State {
            fd,
            readable: false,
            writable: true,
            read_closed: false,
            queued: false,
            starved: false,
            receiving: None,
            wanted: Wanted::Bytes(0),
            sending: None,
            sending_file: None,
            connecting: None,
            accepting: VecDeque::new(),
            datagrams: None,
        }
    }

    /// Whether something is on its way out.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some() || self.sending_file.is_some()
    }

    /// Whether somebody waits for something that an event may bring.
    pub(super) fn has_requests(&self) -> bool {
        self.receiving.is_some()
            || self.is_sending()
            || self.connecting.is_some()
            || !self.accepting.is_empty()
            || self.datagrams.as_ref().is_some_and(|datagrams| datagrams.has_requests())
    }

    pub(super) fn datagrams_mut(&mut self) -> &mut Datagrams {
        self.datagrams.get_or_insert_default()
    }
}
