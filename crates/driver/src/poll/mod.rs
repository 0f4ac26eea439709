//! The readiness driver: epoll on Linux, kqueue elsewhere, through mio.
//!
//! Sockets are registered once, edge triggered, for both directions, and their readiness is kept:
//! in steady state a request costs a receive and a send, and a batch one wait. What readiness cannot
//! do (files) goes to helper threads.
//!
//! | file | idea |
//! |---|---|
//! | `sockets` | a socket's cached readiness and who waits on it |
//! | `driver`, `start` | the trait, and where a request goes first |
//! | `attempt` | trying what may succeed: sends first, then receives |
//! | `connect` | the one request that ends with a new socket of ours |
//! | `start` | where a request goes first; calls that block go to helper threads (`blocking_pool.rs`) |

mod attempt;
mod connect;
mod datagrams;
mod driver;
mod sockets;
mod start;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest};

use self::sockets::State;
use crate::blocking_pool::Inbox;
use crate::chunk::Pool;
use crate::queue_delay_probe::QueueDelayProbe;
use crate::sendfile::QueueDelays;
use crate::socket_table::SocketTable;
use crate::token_map::TokenMap;
use crate::unpark::{Unparker, Wake};
use crate::{Address, Completion, Config, Done, Socket, Token, Unpark};

/// The waker's event; sockets have their index.
const WAKER: mio::Token = mio::Token(usize::MAX);

/// A driver on readiness.
pub struct Poll {
    poll: mio::Poll,
    events: Events,
    /// Whether a park has just asked for events, so that the next reap need not.
    polled: bool,
    pool: Rc<Pool>,
    sockets: SocketTable<State>,
    tokens: TokenMap<Pending>,
    done: Vec<Completion>,
    /// Sockets with something to try.
    queue: Vec<Socket>,
    connects: Vec<(Token, Address)>,
    /// Of files.
    waits: QueueDelays,
    /// Sockets that are readable but found no buffer.
    starved: VecDeque<Socket>,
    jobs: HashMap<u64, Token>,
    next_job: u64,
    inbox: Arc<Inbox>,
    unparker: Arc<Unparker<WakeEvent>>,
    queue_delay: QueueDelayProbe,
    calls: u64,
    /// Where skipped bytes would go if they went anywhere.
    #[cfg(target_os = "linux")]
    skip_buffer: Vec<u8>,
}

/// Where a request in flight is.
#[derive(Clone, Copy)]
enum Pending {
    Accept(Socket),
    Receive(Socket),
    Send(Socket),
    /// A datagram that is sent or received.
    Datagram(Socket),
    /// Not begun.
    Connect,
    Connecting(Socket),
    /// With a helper thread. What changes a file is not over before the thread is.
    Job {
        job: u64,
        lasting: bool,
    },
}

/// What ends a wait of the poll.
struct WakeEvent(mio::Waker);

impl Wake for WakeEvent {
    fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

impl Poll {
    /// Sets up a poll.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(config: &Config) -> io::Result<Poll> {
        let pool = Pool::new(config)?;
        let poll = mio::Poll::new()?;
        let bell = WakeEvent(mio::Waker::new(poll.registry(), WAKER)?);
        let unparker = Unparker::new(bell);
        Ok(Poll {
            poll,
            events: Events::with_capacity(config.entries as usize),
            polled: false,
            pool,
            sockets: SocketTable::new(),
            tokens: TokenMap::new(),
            done: Vec::new(),
            queue: Vec::new(),
            connects: Vec::new(),
            waits: QueueDelays::default(),
            starved: VecDeque::new(),
            jobs: HashMap::new(),
            next_job: 0,
            inbox: Inbox::new(Arc::clone(&unparker) as Arc<dyn Unpark>),
            unparker,
            queue_delay: QueueDelayProbe::default(),
            #[cfg(target_os = "linux")]
            skip_buffer: Vec::new(),
            calls: 4,
        })
    }

    /// Registers a non-blocking socket.
    fn register(&mut self, fd: OwnedFd) -> io::Result<Socket> {
        let raw = fd.as_raw_fd();
        let socket = self.sockets.insert(State::new(fd));
        let token = mio::Token(socket.index as usize);
        self.calls += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut SourceFd(&raw), token, interest) {
            self.sockets.remove(socket);
            return Err(error);
        }
        Ok(socket)
    }

    fn finish(&mut self, token: Token, result: io::Result<Done>) {
        self.tokens.remove(token);
        self.done.push(Completion { token, result });
    }

    fn refuse(&mut self, token: Token, code: i32) {
        self.done.push(Completion::err(token, code));
    }

    fn cancelled(&mut self, token: Token) {
        self.finish(token, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
    }

    /// Lets the next attempt look at `socket`.
    fn enqueue(&mut self, socket: Socket) {
        if let Some(state) = self.sockets.get_mut(socket)
            && !state.queued
        {
            state.queued = true;
            self.queue.push(socket);
        }
    }

    /// Notes what the kernel has to say, waiting for it at most `timeout`.
    fn take_events(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.calls += 1;
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            done => done?,
        }
        for event in &self.events {
            // The waker's own flag says it all, or this was to come by here.
            if event.token() == WAKER {
                self.queue_delay.reaped();
                continue;
            }
            let Some(socket) = self.sockets.at(event.token().0 as u32) else { continue };
            let state = self.sockets.get_mut(socket).expect("it is there");
            // An error is told by whichever call comes first.
            let error = event.is_error();
            state.readable |= event.is_readable() || event.is_read_closed() || error;
            state.writable |= event.is_writable() || event.is_write_closed() || error;
            state.read_closed |= event.is_read_closed() || error;
            if !state.queued && state.has_requests() {
                state.queued = true;
                self.queue.push(socket);
            }
        }
        Ok(())
    }

    /// Results of the helper threads.
    fn take_blocking_results(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        for (job, result) in self.inbox.take() {
            // Without a token it was cancelled.
            if let Some(token) = self.jobs.remove(&job) {
                self.finish(token, result.map(Done::from));
            }
        }
    }
}
