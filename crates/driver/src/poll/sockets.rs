//! A socket's cached readiness, and its requests.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::datagrams::Datagrams;
use crate::Token;
use crate::files::sendfile::FileSend;
use crate::user_bytes::Outgoing;

/// A socket of the driver.
pub(super) struct State {
    pub(super) fd: OwnedFd,
    /// Whether the socket may be readable: an event reported it, and no call has blocked since.
    pub(super) readable: bool,
    /// Whether the socket may be writable. A new socket is, because its send buffer is empty.
    pub(super) writable: bool,
    /// There will be no further edge: from now on a short receive does not clear `readable`.
    pub(super) read_closed: bool,
    /// Whether a receive may be short although bytes are left, for which there will be no further edge: the peer has
    /// sent urgent bytes (TCP), or may pass descriptors (Unix). The kernel ends a receive there.
    pub(super) is_split: bool,
    /// Whether the caller has created the socket, and may have duplicated its descriptor.
    pub(super) is_adopted: bool,
    /// Whether the socket is in the driver's queue.
    pub(super) queued: bool,
    /// Whether the socket is in the list of sockets that wait for a receive buffer.
    pub(super) starved: bool,
    pub(super) receiving: Option<Token>,
    /// Whether the receive in flight discards the bytes.
    pub(super) skips: bool,
    /// The maximum number of bytes of the receive in flight.
    pub(super) max: u64,
    pub(super) sending: Option<Sending>,
    /// The file that is being sent, if no other send is in flight. Boxed, because most sockets never send a file.
    pub(super) sending_file: Option<Box<SendingFile>>,
    pub(super) connecting: Option<Token>,
    pub(super) accepting: VecDeque<Token>,
    /// Whether other drivers accept from the same listening socket.
    pub(super) is_shared: bool,
    /// For datagram sockets only.
    pub(super) datagrams: Option<Box<Datagrams>>,
}

/// A payload that is being sent.
pub(super) struct Sending {
    pub(super) token: Token,
    pub(super) payload: Outgoing,
    pub(super) sent: usize,
}

/// A file that is being sent.
pub(super) struct SendingFile {
    pub(super) token: Token,
    pub(super) sending: FileSend,
    /// The time since which it could have continued, if it did not get a turn.
    pub(super) waits: Option<Instant>,
}

impl State {
    pub(super) fn new(fd: OwnedFd, is_split: bool) -> State {
        State {
            fd,
            readable: false,
            writable: true,
            read_closed: false,
            is_split,
            is_adopted: false,
            queued: false,
            starved: false,
            receiving: None,
            skips: false,
            max: 0,
            sending: None,
            sending_file: None,
            connecting: None,
            accepting: VecDeque::new(),
            is_shared: false,
            datagrams: None,
        }
    }

    /// Records a receive of `length` bytes, of at most `requested`. A short one means that nothing is left; later bytes
    /// cause a new edge. Only the end of the stream, and bytes of a stream that [is split](Self::is_split), may follow
    /// without an edge.
    pub(super) fn received(&mut self, length: usize, requested: usize) {
        self.readable = length == requested || self.read_closed || self.is_split;
    }

    /// Whether a send is in flight.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some() || self.sending_file.is_some()
    }

    /// Whether a request is in flight for which an event may arrive.
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
