//! The interface between a Phalanx processor and the operating system.
//!
//! A processor owns one [`Driver`]. Its operations *start* requests; the processor *submits* them once per sweep,
//! *reaps* completions, and *parks* in the driver when it is idle. Every request has exactly one [`Completion`] with
//! its [`Token`], even if it was cancelled. Until then the driver owns the request's buffers, so the kernel never
//! accesses memory that the caller has freed.
//!
//! Two drivers have the same semantics and pass the same tests: [`uring`] (Linux, completion-based) and [`poll`] (epoll
//! or kqueue, readiness-based). A third, [`sim`], simulates a network and a disk in memory, with timing and faults
//! determined by a seed.
//!
//! ```
//! use phalanx_driver::{Config, Done, DriverChoice, Request, Token, choose, open};
//!
//! # fn main() -> std::io::Result<()> {
//! let (kind, _why_not_uring) = choose(DriverChoice::Auto)?;
//! let mut driver = open(kind, &Config::default())?;
//! let file = std::fs::File::open("/dev/zero")?.into();
//! driver.start(Token(7), Request::ReadAt { file, buffer: Vec::new(), offset: 0, length: 3 });
//! let mut completions = Vec::new();
//! while driver.reap(&mut completions)? == 0 {
//!     driver.park(None)?;
//! }
//! assert_eq!(completions[0].token, Token(7));
//! assert!(matches!(&completions[0].result, Ok(Done::Read(bytes)) if *bytes == [0; 3]));
//! # Ok(())
//! # }
//! ```

mod blocking;
mod chunk;
mod completions;
mod config;
mod endpoint;
mod files;
mod process;
mod queue_delay_probe;
mod request;
mod selection;
mod sockets;
mod token_map;
mod unpark;
mod user_bytes;

pub mod poll;
pub mod sim;
#[cfg(target_os = "linux")]
pub mod uring;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZero;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use socket2::SockRef;

pub use chunk::Chunk;
pub use config::Config;
pub use endpoint::Endpoint;
pub use files::file::{File, FileKind, Metadata, ReadNow, Space};
pub use files::read_dir::{DirEntries, DirEntry, DirEntryKind};
pub use process::affinity::use_all_cores;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use process::affinity::{Restricted, process_cores, restrict};
pub use process::allocator::release_free_memory;
pub use process::signal::has_default_action;
pub use request::{
    Access, Completion, Datagram, Done, FileTransfer, OpenHow, Payload, Request, Socket,
    SymlinkPolicy, Token,
};
pub use selection::{DriverChoice, DriverKind, choose, choose_for, open};
pub use sockets::address::Address;
pub use sockets::datagrams::{DatagramBatch, MAX_BATCH};
pub use sockets::keepalive::Keepalive;
pub use sockets::steering::steer_by_connection_id;

/// A processor's only access to the operating system.
///
/// A driver belongs to one thread. Only [`park`](Driver::park) and [`coalesce`](Driver::coalesce) block.
pub trait Driver {
    /// The driver's name for logs and snapshots, such as `"uring"`.
    fn name(&self) -> &'static str;

    /// Takes ownership of a socket. The driver makes it non-blocking, and closes it on [`close`](Driver::close) or when
    /// the driver is dropped.
    ///
    /// # Errors
    /// The kernel's error if the socket cannot be registered; `EBADF` for a simulated socket of another world.
    fn adopt(&mut self, endpoint: Endpoint) -> io::Result<Socket>;

    /// Creates a UDP socket and binds it to `address`. Port 0 selects a free port.
    ///
    /// # Errors
    /// The errors of `socket(2)` and `bind(2)`.
    fn bind_udp(&mut self, address: SocketAddr) -> io::Result<Socket> {
        self.adopt(UdpSocket::bind(address)?.into())
    }

    /// Connects a UDP socket to `peer`: it then receives datagrams only from `peer`, and sends there by default. This
    /// sends nothing.
    ///
    /// # Errors
    /// The errors of `connect(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn connect_udp(&mut self, socket: Socket, peer: SocketAddr) -> io::Result<()> {
        let fd = self.fd(socket).ok_or_else(no_descriptor)?;
        SockRef::from(&fd).connect(&peer.into())
    }

    /// The number of datagrams that the kernel dropped because the receive buffer of `socket` was full. Wraps at 2³².
    ///
    /// # Errors
    /// `Unsupported` on systems other than Linux.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn udp_drops(&self, socket: Socket) -> io::Result<u32> {
        sockets::datagrams::udp_drops(self.fd(socket).ok_or_else(no_descriptor)?)
    }

    /// Whether [`Request::SendTo`] can divide its bytes into several datagrams on `socket`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn has_segments(&self, socket: Socket) -> bool {
        self.fd(socket).is_some_and(sockets::datagrams::has_segments)
    }

    /// Replaces the contents of `batch` with the datagrams that have arrived on `socket` and for which no request
    /// waits, in a separate system call. There may be none.
    ///
    /// # Errors
    /// The errors of `recvmmsg(2)`. `EBADF` for a socket that is not open.
    fn receive_datagrams_now(
        &mut self,
        socket: Socket,
        batch: &mut DatagramBatch,
    ) -> io::Result<()>;

    /// Makes the kernel distribute new connections randomly among the `first` listeners of a group (`SO_REUSEPORT`), in
    /// the order in which they began to listen. The other listeners stay open. With `None`, the kernel distributes
    /// connections among all listeners by its hash. `listener` is any listener of the group.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`, such as `EINVAL` if the listener is in no group. `Unsupported` on systems other
    /// than Linux.
    ///
    /// # Panics
    /// If `listener` is not open in this driver.
    fn steer(&self, listener: Socket, first: Option<NonZero<u32>>) -> io::Result<()> {
        sockets::steering::steer(self.fd(listener).ok_or_else(no_descriptor)?, first)
    }

    /// Makes the kernel select a socket of a group by connection IDs ([`steer_by_connection_id`]). `socket` is any of
    /// the group.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`. `Unsupported` on systems other than Linux.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn steer_datagrams(&self, socket: Socket, sockets: u16, first: u16) -> io::Result<()> {
        steer_by_connection_id(self.fd(socket).ok_or_else(no_descriptor)?, sockets, first)
    }

    /// The descriptor of `socket`, for options. `None` in a simulation.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn fd(&self, socket: Socket) -> Option<BorrowedFd<'_>>;

    /// The local address of `socket`.
    ///
    /// # Errors
    /// The errors of `getsockname(2)`; `Unsupported` for a Unix socket.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn local_addr(&self, socket: Socket) -> io::Result<SocketAddr> {
        let fd = self.fd(socket).ok_or_else(no_descriptor)?;
        SockRef::from(&fd).local_addr()?.as_socket().ok_or_else(sockets::address::no_ip_address)
    }

    /// The peer's address of `socket`.
    ///
    /// # Errors
    /// The errors of `getpeername(2)`; `Unsupported` for a Unix socket.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn peer_addr(&self, socket: Socket) -> io::Result<SocketAddr> {
        let fd = self.fd(socket).ok_or_else(no_descriptor)?;
        SockRef::from(&fd).peer_addr()?.as_socket().ok_or_else(sockets::address::no_ip_address)
    }

    /// Whether nothing unread has arrived on `connection`: no bytes, no end of the stream and no error.
    ///
    /// # Panics
    /// If `connection` is not open in this driver.
    fn is_idle(&mut self, connection: Socket) -> bool {
        self.fd(connection).is_some_and(sockets::idle::is_idle)
    }

    /// Whether the peer of `connection` has shut down its write direction or the connection is broken. There may still
    /// be unread bytes before the end.
    ///
    /// # Panics
    /// If `connection` is not open in this driver.
    fn is_closed_by_peer(&self, connection: Socket) -> bool {
        self.fd(connection).is_some_and(sockets::idle::is_closed_by_peer)
    }

    /// Enables or disables `TCP_NODELAY`, with which small writes are sent immediately. Has no effect in a simulation.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn set_nodelay(&mut self, socket: Socket, nodelay: bool) -> io::Result<()> {
        match self.fd(socket) {
            Some(fd) => SockRef::from(&fd).set_tcp_nodelay(nodelay),
            None => Ok(()),
        }
    }

    /// Enables or disables `TCP_CORK`: bytes that do not fill a segment wait for more, for the end of the stream, or
    /// for 200 ms. Has no effect in a simulation and on systems other than Linux.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn set_cork(&mut self, socket: Socket, cork: bool) -> io::Result<()> {
        match (self.fd(socket), cork) {
            #[cfg(target_os = "linux")]
            (Some(fd), cork) => Ok(rustix::net::sockopt::set_tcp_cork(fd, cork)?),
            _ => Ok(()),
        }
    }

    /// Enables or disables TCP keepalive. Has no effect in a simulation.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn set_keepalive(&mut self, socket: Socket, keepalive: Option<Keepalive>) -> io::Result<()> {
        match (self.fd(socket), keepalive) {
            (Some(fd), Some(keepalive)) => {
                SockRef::from(&fd).set_tcp_keepalive(&keepalive.to_kernel())
            }
            (Some(fd), None) => SockRef::from(&fd).set_keepalive(false),
            (None, _) => Ok(()),
        }
    }

    /// Lets [`close`](Driver::close) reset `connection`, which discards the bytes that the peer has not acknowledged.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`.
    ///
    /// # Panics
    /// If `connection` is not open in this driver.
    fn reset_on_close(&mut self, connection: Socket) -> io::Result<()> {
        match self.fd(connection) {
            Some(fd) => SockRef::from(&fd).set_linger(Some(Duration::ZERO)),
            None => Ok(()),
        }
    }

    /// The time of day since 1970, or the simulated time.
    fn time_of_day(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Declares that other drivers accept connections from the same socket as `listener`. So this driver takes only as
    /// many connections as are requested, and leaves the others to them. The default implementation does nothing, for
    /// drivers that accept only on request.
    ///
    /// # Panics
    /// If `listener` is not open in this driver.
    fn share(&mut self, listener: Socket) {
        let _ = listener;
    }

    /// Closes `socket`. Requests in flight on it complete with `ECANCELED`; received bytes that were not requested are
    /// dropped. Closing a socket twice has no effect.
    fn close(&mut self, socket: Socket);

    /// Releases `connection`, so that another driver of the same kind can [take it over](Driver::attach). Returns
    /// `None` if it is not open, if a request on it is in flight, or if the driver is receiving on it [in
    /// advance](Driver::stop_ahead).
    fn detach(&mut self, connection: Socket) -> Option<Endpoint>;

    /// Stops receiving on `connection` in advance of requests, so that the connection can be [detached](Driver::detach)
    /// after the next [`submit`](Driver::submit) and [`reap`](Driver::reap), unless bytes have arrived by then. The
    /// next receive request resumes it. The default implementation does nothing, for drivers that receive only on
    /// request.
    fn stop_ahead(&mut self, connection: Socket) {
        let _ = connection;
    }

    /// Takes ownership of a connection that another driver has [detached](Driver::detach), as if `listener` had
    /// accepted it: an accept in flight, or the next one, completes with it. On an error, the connection is closed.
    ///
    /// # Errors
    /// `EBADF` if `listener` is not open; otherwise the errors of [`adopt`](Driver::adopt).
    fn attach(&mut self, listener: Socket, connection: Endpoint) -> io::Result<Socket>;

    /// Shuts down one or both directions of `socket`. Never blocks.
    ///
    /// # Errors
    /// The errors of `shutdown(2)`.
    fn shutdown(&mut self, socket: Socket, how: std::net::Shutdown) -> io::Result<()>;

    /// Whether the requests of a turn share a system call.
    fn shares_calls(&self) -> bool {
        false
    }

    /// Sends the first bytes of `parts` with a separate system call, if `socket` has room for them and no other send is
    /// in flight on it. Returns their number, which is zero if nothing was sent. This is cheaper than a request, unless
    /// several requests [share a system call](Self::shares_calls). In a simulation, the seed determines whether it
    /// sends.
    ///
    /// # Errors
    /// The errors of `send(2)`. `EBADF` for a socket that is not open.
    fn send_now(&mut self, socket: Socket, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Takes a connection of `listener` that has already arrived, with a separate system call or none. It returns
    /// `Ok(None)` if none is known, if accept requests wait, and with real drivers for a [shared](Self::share) listener. A request for each
    /// connection would take a turn for each. In a simulation, the seed determines whether it takes one.
    ///
    /// # Errors
    /// The errors of `accept(2)`. `EBADF` for a socket that is not open.
    fn accept_now(&mut self, listener: Socket) -> io::Result<Option<Socket>>;

    /// Starts a request. The system call may be deferred to the next [`submit`](Driver::submit) or
    /// [`park`](Driver::park). `token` must not be in flight.
    fn start(&mut self, token: Token, request: Request);

    /// Cancels the request `token`. The request still completes, with `ECANCELED`, or with its result if it finished
    /// first. Unknown tokens are ignored.
    fn cancel(&mut self, token: Token);

    /// Passes all started requests to the kernel, in one system call if the kernel supports it.
    ///
    /// # Errors
    /// Only if the driver as a whole fails. Errors of requests are reported in completions.
    fn submit(&mut self) -> io::Result<()>;

    /// Like [`submit`](Driver::submit), but leaves completions in the kernel if the driver can. Used by processors with
    /// a backlog.
    ///
    /// # Errors
    /// The errors of [`submit`](Driver::submit).
    fn submit_backlogged(&mut self) -> io::Result<()> {
        self.submit()
    }

    /// Appends available completions to `into` without blocking, and returns their number.
    ///
    /// # Errors
    /// The errors of [`submit`](Driver::submit).
    fn reap(&mut self, into: &mut Vec<Completion>) -> io::Result<usize>;

    /// Whether [`reap`](Driver::reap) may return completions. Returns `true` if only the kernel knows.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Submits, then sleeps until a completion is available, [`Unpark::unpark`] is called, or `timeout` has passed.
    /// `None` means no timeout. Returns immediately if there was an unpark since the last park. May wake up spuriously.
    ///
    /// # Errors
    /// The errors of [`submit`](Driver::submit).
    fn park(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Submits, then sleeps until this number of `completions` is available or `limit` has passed, to obtain a larger
    /// cohort. [`Unpark::unpark`] does not end this sleep but the next [`park`](Driver::park), so `limit` should be
    /// short. May wake up spuriously.
    ///
    /// # Errors
    /// The errors of [`submit`](Driver::submit).
    fn coalesce(&mut self, completions: usize, limit: Duration) -> io::Result<()>;

    /// The time for which work of this driver has waited for its turn, measured since the last call. It is the sum of
    /// two delays, each of which is zero if there was no such work:
    ///
    /// - for file sends to sockets with free buffer space: the minimum over all turns of the longest delay in a turn;
    /// - for completions that were left in the kernel: the delay of a probe that was queued with them.
    ///
    /// Time that a request waits for its peer does not count.
    fn queue_delay(&mut self) -> Duration {
        Duration::ZERO
    }

    /// A handle that ends a [`park`](Driver::park) of this driver from any thread.
    fn unparker(&self) -> Arc<dyn Unpark>;

    /// The number of receive buffers that are lent to the user in [`Chunk`]s.
    fn buffers_lent(&self) -> usize {
        0
    }

    /// The number of system calls that this driver has made.
    fn system_calls(&self) -> u64;
}

fn no_descriptor() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// Ends a [`park`](Driver::park) from another thread.
pub trait Unpark: Send + Sync {
    /// Makes the current park return immediately or, if there is none, the next one.
    fn unpark(&self);
}
