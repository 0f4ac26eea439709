//! The io_uring driver: requests become submissions, completions come back without a readiness
//! round trip, and one system call carries a whole sweep in both directions.
//!
//! | file | idea |
//! |---|---|
//! | `driver`, `start` | the trait, and where a request goes first |
//! | `setup` | the best flags that this kernel has |
//! | `ring` | the two queues and the one system call |
//! | `buffers` | received bytes land in buffers that the kernel picks |
//! | `inflight` | memory and descriptors stay while the kernel has them |
//! | `sending`, `datagrams`, `files` | operations with memory of their own |
//! | `sendfile` | files to sockets, by calls of our own |
//! | `sockets`, `receive`, `accept` | multishot operations, and bounded running ahead |
//! | `complete`, `prefetch` | from completions to results |
//! | `symlink_owner` | opening where links matter, which takes more than one call |
//! | `wake`, `teardown` | unpark, and the end |
//!
//! # Safety
//! `relaunch` is the only place from which an operation with memory goes to the kernel, and all that
//! it points to is owned by its entry in `inflight` until its final completion: see there.

mod accept;
mod buffers;
mod complete;
mod datagrams;
mod driver;
mod files;
mod inflight;
mod prefetch;
mod receive;
mod ring;
mod sendfile;
mod sending;
mod setup;
mod sockets;
mod start;
mod symlink_owner;
mod teardown;
mod wake;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use io_uring::opcode;

use self::buffers::Buffers;
use self::inflight::{IGNORED, Inflight, Operation};
use self::ring::{Event, Ring};
use self::sendfile::FileSends;
use self::sending::Message;
use self::sockets::{RECEIVE_AHEAD, State};
use self::symlink_owner::OwnerChecks;
use self::wake::WakeEvent;
use crate::chunk::Pool;
use crate::queue_delay_probe::QueueDelayProbe;
use crate::socket_table::SocketTable;
use crate::token_map::TokenMap;
use crate::unpark::Unparker;
use crate::{Completion, Config, Socket, Token};

/// A driver on io_uring. Needs Linux 6.0.
pub struct Uring {
    /// First, so that the ring is closed before what it refers to is freed.
    ring: Ring,
    inflight: ManuallyDrop<Inflight>,
    buffers: ManuallyDrop<Buffers>,
    sockets: SocketTable<State>,
    tokens: TokenMap<Pending>,
    done: Vec<Completion>,
    /// Sockets whose receive found no buffer.
    starved: VecDeque<Socket>,
    /// Bytes that a multishot receive may take in a row; 0 leaves it to the kernel.
    run: u32,
    owner_checks: OwnerChecks,
    files: FileSends,
    unparker: Arc<Unparker<WakeEvent>>,
    queue_delay: QueueDelayProbe,
    events: Vec<Event>,
    /// Only while completions are looked at: see `prefetch`.
    ahead: Vec<Token>,
    #[expect(clippy::vec_box, reason = "they keep their address when one is put to use")]
    messages: Vec<Box<Message>>,
    /// System calls beside those on the ring.
    calls: u64,
}

/// Where a request in flight is.
#[derive(Clone, Copy)]
enum Pending {
    Accept(Socket),
    Receive(Socket),
    Operation(u64),
    /// On its way from a file to a socket.
    File(usize),
    /// With a helper thread.
    OwnerCheck(u64),
}

impl Uring {
    /// Sets up a ring for the calling thread.
    ///
    /// # Errors
    /// What the kernel says when it has no io_uring for us, `EINVAL` when it is too old.
    pub fn open(config: &Config) -> io::Result<Uring> {
        let pool = Pool::new(config)?;
        let mut ring = setup::set_up(config)?;
        let buffers = Buffers::register(&mut ring, pool)?;
        let unparker = Unparker::new(WakeEvent::new()?);
        let mut uring = Uring {
            ring,
            inflight: ManuallyDrop::default(),
            buffers: ManuallyDrop::new(buffers),
            sockets: SocketTable::new(),
            tokens: TokenMap::new(),
            done: Vec::new(),
            starved: VecDeque::new(),
            run: config.buffer_size.saturating_mul(RECEIVE_AHEAD as u32),
            owner_checks: OwnerChecks::new(&unparker),
            files: FileSends::default(),
            unparker,
            queue_delay: QueueDelayProbe::default(),
            events: Vec::new(),
            ahead: Vec::new(),
            messages: Vec::new(),
            calls: 3,
        };
        uring.listen();
        Ok(uring)
    }

    /// Puts `operation` in flight.
    fn launch(&mut self, operation: Operation) -> u64 {
        let name = self.inflight.insert(operation);
        self.relaunch(name);
        name
    }

    /// Submits what is left of the operation `name`.
    fn relaunch(&mut self, name: u64) {
        let submission = match self.inflight.get_mut(name) {
            Operation::Listen => self.unparker.wake.listen(),
            Operation::Accept { fd, .. } => accept::submission(fd),
            Operation::Receive { fd, run, .. } => receive::submission(fd, *run),
            Operation::Send(sending) => sending.submission(&mut self.messages),
            Operation::SendDatagram(sending) => sending.submission(),
            Operation::ReceiveDatagram(receiving) => receiving.submission(),
            Operation::WaitForSpace(waiting) => waiting.submission(),
            Operation::Connect(connecting) => connecting.submission(),
            Operation::Open(opening) => opening.submission(),
            Operation::Read(reading) => reading.submission(),
            Operation::Write(writing) => writing.submission(),
            Operation::Sync(syncing) => syncing.submission(),
        };
        // SAFETY: all that the submission points to is heap memory and descriptors that the entry
        // in `inflight` owns, and `complete` removes that entry only at the final completion; when
        // the driver is dropped before, `teardown` waits for it or leaks the entry.
        unsafe { self.ring.push(submission.user_data(name)) };
    }

    /// Asks the kernel to end the operation `name` early.
    fn abort(&mut self, name: u64) {
        if self.inflight.cancel(name) {
            let submission = opcode::AsyncCancel::new(name).build().user_data(IGNORED);
            // SAFETY: a cancellation points to nothing. The name cannot have passed to another
            // operation when the kernel sees it: that one would be submitted later.
            unsafe { self.ring.push(submission) };
        }
    }

    fn listen(&mut self) {
        self.launch(Operation::Listen);
    }
}
