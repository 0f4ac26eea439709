//! How a Phalanx processor meets the world.
//!
//! A processor owns one [`Driver`]. It *starts* requests on it while its operations run, *submits*
//! them once a sweep, *reaps* what has completed, and *parks* in it when there is nothing to do.
//! Every request is answered by exactly one [`Completion`] with the request's [`Token`], also when
//! it was cancelled; until then the driver owns the request's buffers, so a caller that goes away
//! can never free memory that the kernel still writes to.
//!
//! Two drivers have the same semantics and pass the same tests: [`uring`] (Linux, completion based)
//! and [`poll`] (epoll or kqueue, readiness based). A third, [`sim`], is a world made of memory,
//! whose time and faults are chosen by a seed.
//!
//! ```
//! use phalanx_driver::{DriverChoice, Config, Done, Request, Token, choose, open};
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

mod blocking_pool;
mod chunk;
mod config;
mod endpoint;
mod file;
mod mmap;
mod page_cache;
mod queue_delay_probe;
mod read_dir;
mod request;
mod resolve_beneath;
mod selection;
mod sendfile;
mod socket_table;
mod token_map;
mod unpark;
mod user_bytes;

pub mod poll;
pub mod sim;
#[cfg(target_os = "linux")]
pub mod uring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use chunk::Chunk;
pub use config::Config;
pub use endpoint::Endpoint;
pub use file::{File, FileKind, Metadata, ReadNow, Space};
pub use read_dir::{Named, NamedKind, Names};
pub use request::{Access, Completion, Done, Links, OpenHow, Payload, Request, Socket, Token};
pub use selection::{DriverChoice, DriverKind, choose, open};

/// What a processor needs of the operating system, and the only way to it.
///
/// A driver belongs to one thread. Nothing in it blocks but [`park`](Driver::park).
pub trait Driver {
    /// `"uring"` or `"poll"`, for logs and snapshots.
    fn name(&self) -> &'static str;

    /// Takes a listening or connected stream socket into the driver's care. The driver makes it
    /// non-blocking and closes it on [`close`](Driver::close) or when the driver is dropped.
    ///
    /// # Errors
    /// What the kernel says when the socket cannot be registered.
    fn adopt(&mut self, endpoint: Endpoint) -> io::Result<Socket>;

    /// The descriptor behind `socket`, for options. None in a simulation.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn fd(&self, socket: Socket) -> Option<BorrowedFd<'_>>;

    /// The address of this end of `socket`.
    ///
    /// # Errors
    /// As `getsockname(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn local_addr(&self, socket: Socket) -> io::Result<SocketAddr> {
        internet(socket2::SockRef::from(&self.fd(socket).ok_or_else(no_descriptor)?).local_addr()?)
    }

    /// The address of the other end of `socket`.
    ///
    /// # Errors
    /// As `getpeername(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn peer_addr(&self, socket: Socket) -> io::Result<SocketAddr> {
        internet(socket2::SockRef::from(&self.fd(socket).ok_or_else(no_descriptor)?).peer_addr()?)
    }

    /// Sends what is written to `socket` at once, be it as little as it may.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    ///
    /// # Panics
    /// If `socket` is not open in this driver.
    fn set_nodelay(&mut self, socket: Socket) -> io::Result<()> {
        match self.fd(socket) {
            Some(fd) => socket2::SockRef::from(&fd).set_tcp_nodelay(true),
            None => Ok(()),
        }
    }

    /// The time of day, since 1970: the machine's, or the simulation's.
    fn time_of_day(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Closes `socket`. Requests in flight on it complete with `ECANCELED`; what was received and
    /// not yet asked for is dropped. Closing a socket twice does nothing.
    fn close(&mut self, socket: Socket);

    /// Shuts down one or both directions of `socket`; never blocks.
    ///
    /// # Errors
    /// As `shutdown(2)`.
    fn shutdown(&mut self, socket: Socket, how: std::net::Shutdown) -> io::Result<()>;

    /// Takes a request. No system call is promised now: it is made at the latest by the next
    /// [`submit`](Driver::submit) or [`park`](Driver::park). `token` must not be in flight already.
    fn start(&mut self, token: Token, request: Request);

    /// Asks for the request `token` to end early. Its completion still comes: `ECANCELED`, or the
    /// result if that was faster. Unknown tokens are ignored.
    fn cancel(&mut self, token: Token);

    /// Hands everything started to the kernel, in one system call where the kernel has one.
    ///
    /// # Errors
    /// Only when the kernel refuses the driver as a whole; errors of requests are completions.
    fn submit(&mut self) -> io::Result<()>;

    /// As [`submit`](Driver::submit), but what has come meanwhile is not taken in where that can be
    /// kept apart: for callers who have enough to do.
    ///
    /// # Errors
    /// As [`submit`](Driver::submit).
    fn hand_over(&mut self) -> io::Result<()> {
        self.submit()
    }

    /// Appends what has completed to `into`, without blocking, and returns how many.
    ///
    /// # Errors
    /// As [`submit`](Driver::submit).
    fn reap(&mut self, into: &mut Vec<Completion>) -> io::Result<usize>;

    /// Whether a [`reap`](Driver::reap) may find something. True where only the kernel knows.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Submits, then sleeps until a completion can be reaped, [`Unpark::unpark`] was called (since
    /// the last park returned: it is sticky), or `timeout` is over. `None` sleeps without end. May
    /// also return early for no reason.
    ///
    /// # Errors
    /// As [`submit`](Driver::submit).
    fn park(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Submits, then sleeps until `completions` of them can be reaped or `limit` is over: for cohorts
    /// that are worth their turn. It is not ended by [`Unpark::unpark`], so `limit` is to be short;
    /// the next [`park`](Driver::park) then is. May also return early for no reason.
    ///
    /// # Errors
    /// As [`submit`](Driver::submit).
    fn gather(&mut self, completions: usize, limit: Duration) -> io::Result<()>;

    /// How long work for this thread had to wait for its turn, as far as it was seen since this was asked last. Of files on
    /// their way to sockets with room for them: the smallest, over the turns, of the longest wait in
    /// each. Of what has come from outside and was not taken in at once: that of something that came when this was
    /// asked. Both added; zero where nothing did. What waits for its client is not meant.
    fn waited(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Ends a [`park`](Driver::park) of this driver from any thread.
    fn unparker(&self) -> Arc<dyn Unpark>;

    /// Receive buffers that are with the driver's user, in [`Chunk`]s.
    fn buffers_lent(&self) -> usize {
        0
    }

    /// How many system calls this driver has made so far.
    fn system_calls(&self) -> u64;
}

fn no_descriptor() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

fn internet(address: socket2::SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| io::Error::other("not an internet address"))
}

/// The end of a [`Driver`] that other threads hold.
pub trait Unpark: Send + Sync {
    /// Makes the current or else the next park return at once.
    fn unpark(&self);
}
