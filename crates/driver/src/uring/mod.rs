//! The io_uring driver: requests become submissions. Completions need no readiness round trip, and one
//! system call carries a whole sweep in both directions.
//!
//! | file | content |
//! |---|---|
//! | `driver` | the implementation of `Driver` |
//! | `ring` | the queues and their system call, setup, receive buffers, wake-ups |
//! | `sockets` | the state of a socket |
//! | `operation` | operations in the kernel, their memory and descriptors |
//! | `requests` | starting requests, and handling their completions |
//! | `complete`, `prefetch` | translating completions to results |
//! | `teardown` | dropping the driver |
//!
//! # Safety
//! `relaunch`, `launch_receive` and `launch_send` are the only places that submit operations. Everything that a
//! submission points to is owned by its entry in `inflight` until the final completion: see `operation/inflight.rs`.

mod complete;
mod driver;
mod operation;
mod prefetch;
mod requests;
mod ring;
mod sockets;
mod teardown;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use io_uring::opcode;

use crate::blocking::jobs::BlockingJobs;
use crate::chunk::Pool;
use crate::completions::Completions;
use crate::queue_delay_probe::QueueDelayProbe;
use crate::sockets::socket_table::SocketTable;
use crate::unpark::Unparker;
use crate::uring::operation::file_sends::FileSends;
use crate::uring::operation::inflight::{IGNORED, Inflight, Operation, Receive};
use crate::uring::operation::multishot;
use crate::uring::operation::sending::{Message, Sending};
use crate::uring::ring::buffers::Buffers;
use crate::uring::ring::queues::{Event, Ring};
use crate::uring::ring::setup;
use crate::uring::ring::wake::WakeEvent;
use crate::uring::sockets::{RECEIVE_AHEAD, State};
use crate::{Config, Socket, Token, Unpark};

/// A driver based on io_uring. Needs Linux 6.0.
pub struct Uring {
    /// The first field, so that the ring is closed before the memory that it refers to is freed.
    ring: Ring,
    inflight: ManuallyDrop<Inflight>,
    buffers: ManuallyDrop<Buffers>,
    sockets: SocketTable<State>,
    completions: Completions<Pending>,
    /// Sockets whose receive found no buffer.
    starved: VecDeque<Socket>,
    /// Whether buffers of the pool may contain bytes that no request has asked for.
    has_pooled_ahead: bool,
    /// Listeners whose last accept request has ended. Their accepts end with a submission, unless there is another one.
    unrequested: Vec<Socket>,
    /// The maximum number of bytes that a multishot receive may take without interruption; 0 for the kernel's default.
    multishot_limit: u32,
    /// Paths that helper threads resolve.
    owner_checks: BlockingJobs,
    files: FileSends,
    unparker: Arc<Unparker<WakeEvent>>,
    queue_delay: QueueDelayProbe,
    events: Vec<Event>,
    /// Scratch memory of `prefetch`.
    prefetched: Vec<Token>,
    #[expect(clippy::vec_box, reason = "a header must keep its address while it is in use")]
    messages: Vec<Box<Message>>,
    /// System calls outside the ring.
    calls: u64,
}

/// The state of a request in flight.
#[derive(Clone, Copy)]
enum Pending {
    Accept(Socket),
    Receive(Socket),
    Operation(u64),
    /// A file being sent to a socket.
    File(usize),
    /// A path that a helper thread resolves.
    OwnerCheck(u64),
    /// A request that waits for a cancelled one of this socket.
    Queued(Socket),
}

impl Uring {
    /// Opens a ring for the calling thread.
    ///
    /// # Errors
    /// The kernel's error if io_uring is not available; `EINVAL` if the kernel is too old.
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
            completions: Completions::new(),
            starved: VecDeque::new(),
            has_pooled_ahead: false,
            unrequested: Vec::new(),
            multishot_limit: config.buffer_size.saturating_mul(RECEIVE_AHEAD as u32),
            owner_checks: BlockingJobs::new(Arc::clone(&unparker) as Arc<dyn Unpark>),
            files: FileSends::default(),
            unparker,
            queue_delay: QueueDelayProbe::default(),
            events: Vec::new(),
            prefetched: Vec::new(),
            messages: Vec::new(),
            calls: 3,
        };
        uring.arm_wake_event();
        Ok(uring)
    }

    /// Stores `operation` and submits it. Returns its user data.
    fn launch(&mut self, operation: Operation) -> u64 {
        let user_data = self.inflight.insert(operation);
        self.relaunch(user_data);
        user_data
    }

    /// Stores a receive and submits it. Returns its user data.
    fn launch_receive(&mut self, receive: Receive) -> u64 {
        let submission = multishot::receive(&receive.fd, receive.multishot_limit);
        let user_data = self.inflight.insert_receive(receive);
        // SAFETY: the submission points to nothing, and the entry in `inflight` owns its descriptor: see `relaunch`.
        unsafe { self.ring.push(submission.user_data(user_data)) };
        user_data
    }

    /// Stores a send and submits it. Returns its user data.
    fn launch_send(&mut self, mut sending: Sending) -> u64 {
        let submission = sending.submission(&mut self.messages);
        let user_data = self.inflight.insert(Operation::Send(sending));
        // SAFETY: as in `relaunch`. The submission points to heap memory only, which has not moved.
        unsafe { self.ring.push(submission.user_data(user_data)) };
        user_data
    }

    /// Submits what remains of an operation.
    fn relaunch(&mut self, user_data: u64) {
        let submission = match self.inflight.get_mut(user_data) {
            Operation::PollWakeEvent => self.unparker.wake.poll_submission(),
            Operation::Accept { fd, once, .. } => multishot::accept(fd, *once),
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
        // SAFETY: the submission points only to heap memory and descriptors that the entry in `inflight`
        // owns. `complete` removes that entry only at the final completion. If the driver is dropped before,
        // `teardown` waits for the completion or leaks the entry.
        unsafe { self.ring.push(submission.user_data(user_data)) };
    }

    /// Called before each submission. The thread then `sleeps` if nothing has completed.
    fn prepare_submission(&mut self, sleeps: bool) {
        self.stop_accepts();
        self.replenish(sleeps);
    }

    /// Asks the kernel to cancel an operation.
    fn abort(&mut self, user_data: u64) {
        if self.inflight.cancel(user_data) {
            let submission = opcode::AsyncCancel::new(user_data).build().user_data(IGNORED);
            // SAFETY: a cancellation points to nothing. The user data cannot belong to another operation when the
            // kernel reads it, because that one would be submitted later.
            unsafe { self.ring.push(submission) };
        }
    }

    fn arm_wake_event(&mut self) {
        self.launch(Operation::PollWakeEvent);
    }
}
