//! The readiness driver: epoll on Linux, kqueue elsewhere, through mio.
//!
//! Sockets are registered once, edge triggered, for both directions, and their readiness is cached. In steady
//! state a request costs a receive and a send, and each batch one wait. Files, which have no readiness, are
//! handled by helper threads (`blocking/pool.rs`).
//!
//! | file | content |
//! |---|---|
//! | `sockets` | a socket's cached readiness and its requests |
//! | `driver`, `start` | the implementation of `Driver`, and starting requests |
//! | `attempt` | attempting calls that may succeed: sends first, then receives |
//! | `connect` | opening connections |
//! | `datagrams` | sending and receiving datagrams |

mod attempt;
mod connect;
mod datagrams;
mod driver;
mod sockets;
mod start;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest};

use self::sockets::State;
use crate::blocking::jobs::BlockingJobs;
use crate::chunk::Pool;
use crate::completions::Completions;
use crate::files::sendfile::QueueDelays;
use crate::queue_delay_probe::QueueDelayProbe;
use crate::sockets::attached::Attached;
use crate::sockets::socket_table::SocketTable;
use crate::unpark::{Unparker, Wake};
use crate::{Address, Config, Socket, Token, Unpark};

/// The waker's token. The token of a socket is its index.
const WAKER: mio::Token = mio::Token(usize::MAX);

/// A driver based on readiness.
pub struct Poll {
    poll: mio::Poll,
    events: Events,
    /// Whether a park has just taken events, so that the next reap need not.
    polled: bool,
    pool: Rc<Pool>,
    sockets: SocketTable<State>,
    completions: Completions<Pending>,
    /// Sockets with calls to attempt.
    queue: Vec<Socket>,
    connects: Vec<(Token, Address)>,
    /// The delays of files.
    waits: QueueDelays,
    attached: Attached,
    /// Sockets that are readable but found no receive buffer.
    starved: VecDeque<Socket>,
    jobs: BlockingJobs,
    unparker: Arc<Unparker<WakeEvent>>,
    queue_delay: QueueDelayProbe,
    calls: u64,
    /// The buffer for skipped bytes, to which TCP never writes.
    #[cfg(target_os = "linux")]
    skip_buffer: Vec<u8>,
}

/// The state of a request in flight.
#[derive(Clone, Copy)]
enum Pending {
    Accept(Socket),
    Receive(Socket),
    Send(Socket),
    /// A datagram being sent or received.
    Datagram(Socket),
    /// A connect that has not been started.
    Connect,
    Connecting(Socket),
    /// A call on a helper thread. If it changes a file, it completes only when the thread has finished.
    Job {
        job: u64,
        changes_file: bool,
    },
}

/// The event that ends a wait.
struct WakeEvent(mio::Waker);

impl Wake for WakeEvent {
    fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

impl Poll {
    /// Opens a driver.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(config: &Config) -> io::Result<Poll> {
        let pool = Pool::new(config)?;
        let poll = mio::Poll::new()?;
        let wake_event = WakeEvent(mio::Waker::new(poll.registry(), WAKER)?);
        let unparker = Unparker::new(wake_event);
        Ok(Poll {
            poll,
            events: Events::with_capacity(config.entries as usize),
            polled: false,
            pool,
            sockets: SocketTable::new(),
            completions: Completions::new(),
            queue: Vec::new(),
            connects: Vec::new(),
            waits: QueueDelays::default(),
            attached: Attached::default(),
            starved: VecDeque::new(),
            jobs: BlockingJobs::new(Arc::clone(&unparker) as Arc<dyn Unpark>),
            unparker,
            queue_delay: QueueDelayProbe::default(),
            #[cfg(target_os = "linux")]
            skip_buffer: Vec::new(),
            calls: 4,
        })
    }

    /// Registers a non-blocking socket of any kind.
    fn register_any(&mut self, fd: OwnedFd) -> io::Result<Socket> {
        self.calls += 1;
        let is_unix =
            socket2::SockRef::from(&fd).local_addr().is_ok_and(|address| address.is_unix());
        self.register(fd, is_unix)
    }

    /// Registers a non-blocking socket, whose streams may be [split](State::is_split).
    fn register(&mut self, fd: OwnedFd, is_split: bool) -> io::Result<Socket> {
        let raw = fd.as_raw_fd();
        let socket = self.sockets.insert(State::new(fd, is_split));
        let token = mio::Token(socket.index as usize);
        self.calls += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        // Urgent bytes.
        #[cfg(target_os = "linux")]
        let interest = interest | Interest::PRIORITY;
        if let Err(error) = self.poll.registry().register(&mut SourceFd(&raw), token, interest) {
            self.sockets.remove(socket);
            return Err(error);
        }
        Ok(socket)
    }

    /// Stops the events of a socket that leaves the driver. Closing its descriptor stops them as well, unless it was
    /// duplicated; its index will belong to another socket.
    fn deregister(&mut self, fd: &OwnedFd) {
        self.calls += 1;
        let result = self.poll.registry().deregister(&mut SourceFd(&fd.as_raw_fd()));
        debug_assert!(result.is_ok());
    }

    /// Queues `socket` for the next attempt.
    fn enqueue(&mut self, socket: Socket) {
        if let Some(state) = self.sockets.get_mut(socket)
            && !state.queued
        {
            state.queued = true;
            self.queue.push(socket);
        }
    }

    /// Takes readiness events from the kernel, waiting at most `timeout` for them.
    fn take_events(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.calls += 1;
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            done => done?,
        }
        for event in &self.events {
            // The unparker's flag contains the information; the event only ended the wait, or was the queue
            // delay probe.
            if event.token() == WAKER {
                self.queue_delay.reaped();
                continue;
            }
            let Some(socket) = self.sockets.at(event.token().0 as u32) else { continue };
            let state = self.sockets.get_mut(socket).expect("it is there");
            // The next call on the socket returns the error.
            let error = event.is_error();
            state.readable |= event.is_readable() || event.is_read_closed() || error;
            state.writable |= event.is_writable() || event.is_write_closed() || error;
            state.read_closed |= event.is_read_closed() || error;
            state.is_split |= event.is_priority();
            if !state.queued && state.has_requests() {
                state.queued = true;
                self.queue.push(socket);
            }
        }
        Ok(())
    }

    /// Takes the results of the helper threads.
    fn take_blocking_results(&mut self) {
        for (token, result) in self.jobs.take() {
            self.completions.finish(token, result);
        }
    }
}
