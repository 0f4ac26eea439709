//! A socket's state: its requests, and results that arrived before they were requested.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::uring::requests::queued::Queued;
use crate::{Chunk, Socket, Token};

/// The number of unrequested results at which the multishot receive is cancelled. The cancellation takes effect at the
/// next submission, so a fast sender completes one more run. A run is about this many receives if the kernel can limit
/// it, otherwise up to 32.
pub(crate) const RECEIVE_AHEAD: usize = 4;

/// The same limit for accepted connections.
pub(crate) const ACCEPT_AHEAD: usize = 16;

/// A socket of the driver.
pub(crate) struct State {
    pub(crate) fd: Rc<OwnedFd>,
    /// The send in flight.
    pub(crate) sending: Option<u64>,
    /// The file that is being sent, if no other send is in flight.
    pub(crate) sending_file: Option<u32>,
    pub(crate) receiving: Receiving,
    /// For listeners only.
    pub(crate) accepting: Option<Box<Accepting>>,
    /// Requests that wait until a cancelled one has completed.
    pub(crate) queued: Option<Box<Queued>>,
}

/// The receiving side of a connection.
#[derive(Default)]
pub(crate) struct Receiving {
    pub(crate) waiting: Option<Token>,
    /// The maximum number of bytes that the waiting request takes.
    pub(crate) max: u32,
    /// The multishot operation, or the receive of a datagram.
    pub(crate) armed: Option<u64>,
    /// Results that arrived before they were requested, in order.
    pub(crate) ahead: VecDeque<io::Result<Chunk>>,
    /// Whether the socket is in the list of sockets that wait for a receive buffer.
    pub(crate) starved: bool,
}

/// The state of a listener.
#[derive(Default)]
pub(crate) struct Accepting {
    pub(crate) waiting: VecDeque<Token>,
    pub(crate) armed: Option<u64>,
    pub(crate) ahead: VecDeque<Socket>,
    /// Whether other drivers accept from the same socket.
    pub(crate) is_shared: bool,
}

impl Receiving {
    /// The next result, with at most `max` bytes.
    pub(crate) fn take_ahead(&mut self, max: usize) -> Option<io::Result<Chunk>> {
        match self.ahead.front_mut() {
            Some(Ok(chunk)) if chunk.len() > max => Some(Ok(chunk.split_to(max))),
            _ => self.ahead.pop_front(),
        }
    }
}

impl State {
    pub(crate) fn new(fd: OwnedFd) -> State {
        State {
            fd: Rc::new(fd),
            sending: None,
            sending_file: None,
            receiving: Receiving::default(),
            accepting: None,
            queued: None,
        }
    }

    /// Whether no request has been started on this connection.
    pub(crate) fn is_unused(&self) -> bool {
        let Receiving { waiting, armed, ahead, starved, .. } = &self.receiving;
        let receives = waiting.is_some() || armed.is_some() || !ahead.is_empty() || *starved;
        let shared = Rc::strong_count(&self.fd) > 1;
        !receives && !self.is_sending() && self.accepting.is_none() && !shared
    }

    /// Whether a send is in flight.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending.is_some() || self.sending_file.is_some()
    }
}
