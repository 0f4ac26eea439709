//! The simulated driver: a world of sockets and files in memory. Its time is a number, and every choice is
//! drawn from a seed.
//!
//! All drivers of one [`World`] share its network and its disk. The world depends only on the seed and on the
//! order of calls, so a run on one thread is reproducible.
//!
//! The simulation does most of what a kernel may do: bytes arrive in pieces, late or never, completions come in any
//! order, connections are reset or refused, files are not cached or cannot be read. It does nothing that a kernel never
//! does: the bytes of a stream keep their order, and each request completes once.
//!
//! Its limits: No connection ends because its peer stops answering, since TCP packets are delayed but never lost. A TCP
//! connect that fails does so immediately. A socket at the IPv6 address `::` receives nothing that was sent to an IPv4
//! address. Directories, owners and permissions do not fail, and no file has several names. A power failure may lose
//! unsynced data, but never damages synced data.
//!
//! | file | content |
//! |---|---|
//! | `durable` | the part of a file that survives a power failure |
//! | `faults` | fault rates |
//! | `clock` | virtual time, and the time of the next arrival |
//! | `net`, `peer` | connections as pairs of bounded pipes, and the sockets of clients |
//! | `udp` | datagrams, which may be lost, duplicated and reordered |
//! | `disk`, `node` | a tree of files, and open files |
//! | `driver`, `attempt` | the implementation of `Driver`, and attempting requests |

mod attempt;
mod clock;
mod disk;
mod driver;
mod durable;
mod faults;
mod net;
mod node;
mod peer;
mod udp;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;

pub use self::driver::Sim;
pub use self::faults::Faults;
pub use self::peer::{Listening, Peer};
pub use self::udp::UdpPeer;

pub(crate) use self::node::Node;

use self::clock::Clock;
use self::disk::{Disk, ROOT};
use self::net::Net;
use self::udp::Udp;
use crate::{Address, Config, Endpoint, File};

/// The error of the system with number `code`.
fn code(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// A simulated world. Clones are the same world.
///
/// ```
/// use phalanx_driver::sim::World;
/// use phalanx_driver::{Config, Done, Driver, Request, Token};
///
/// let world = World::new(7);
/// let address = "10.0.0.1:80".parse().unwrap();
/// let mut driver = world.driver(&Config::default())?;
/// let listener = driver.adopt(world.listen(address))?;
/// driver.start(Token(1), Request::Accept { listener });
/// let client = world.connect(address)?;
/// let mut completions = Vec::new();
/// while driver.reap(&mut completions)? == 0 {
///     driver.park(None)?; // advances the virtual time
/// }
/// assert!(matches!(completions[0].result, Ok(Done::Accepted(_))));
/// # drop(client);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) net: Net,
    pub(crate) udp: Udp,
    pub(crate) disk: Disk,
    /// Increases with every change that a waiting client may observe.
    changes: u64,
    /// Whether nothing is sent, and no file changes.
    pub(crate) is_silent: bool,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A world whose choices are drawn from `seed`, without faults.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            clock: Clock::default(),
            rng: Rng::with_seed(seed),
            faults: Faults::NONE,
            net: Net::default(),
            udp: Udp::default(),
            disk: Disk::new(),
            changes: 0,
            is_silent: false,
        })))
    }

    /// Sets the fault rates from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets the maximum total size of all files on the disk, in bytes. The default, `u64::MAX`, is no limit.
    pub fn set_disk_capacity(&self, bytes: u64) {
        self.state().disk.set_capacity(bytes);
    }

    /// The fault rates.
    pub fn faults(&self) -> Faults {
        self.state().faults
    }

    /// Runs `f`, during which nothing is sent and no file changes: calls that would do so fail. Sockets still close. A
    /// simulation of a killed program runs the program's destructors in `f`: in a process that is really killed, they
    /// would not run.
    pub fn without_effects<R>(&self, f: impl FnOnce() -> R) -> R {
        self.state().is_silent = true;
        let result = f();
        self.state().is_silent = false;
        result
    }

    /// A driver of this world, for one processor.
    ///
    /// # Errors
    /// `InvalidInput` for sizes that a driver cannot have.
    pub fn driver(&self, config: &Config) -> io::Result<Sim> {
        Sim::new(self.clone(), config)
    }

    /// Nanoseconds since the beginning of the world.
    pub fn now(&self) -> u64 {
        self.state().clock.now
    }

    /// Advances the time to `time`. Time never goes back.
    pub fn advance_to(&self, time: u64) {
        let state = &mut *self.state();
        if state.clock.advance_to(time) {
            state.changes += 1;
        }
    }

    /// The time of the next arrival, if anything will arrive.
    pub fn next_arrival(&self) -> Option<u64> {
        self.state().clock.next_arrival()
    }

    /// Schedules an arrival in `after` nanoseconds, and returns its time.
    pub fn expect_after(&self, after: u64) -> u64 {
        self.state().clock.expect_after(after)
    }

    /// The time of day, since 1970.
    pub fn time_of_day(&self) -> Duration {
        self.state().clock.time_of_day()
    }

    /// Sets the time of day.
    pub fn set_time_of_day(&self, time: Duration) {
        self.state().clock.set_time_of_day(time);
    }

    /// A number that increases with every change that a waiting client may observe.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Draws a number below `bound` from the world's seed.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn draw(&self, bound: u64) -> u64 {
        self.state().rng.u64(..bound)
    }

    /// Draws true `per_mille` times out of a thousand.
    pub fn chance(&self, per_mille: u32) -> bool {
        self.state().chance(per_mille)
    }

    /// A listening socket at `address`, for one of this world's drivers to adopt. Several sockets at one
    /// address share its connections.
    pub fn listen(&self, address: SocketAddr) -> Endpoint {
        Listening::new(self.clone(), address.into()).into()
    }

    /// A listening Unix socket at `path`, for one of this world's drivers to adopt. Several at one path share its
    /// connections. The path is not on the world's disk.
    pub fn listen_unix(&self, path: impl Into<PathBuf>) -> Endpoint {
        Listening::new(self.clone(), Address::Unix(path.into())).into()
    }

    /// Connects to a listening socket of this world.
    ///
    /// # Errors
    /// `ConnectionRefused` if no socket listens at `address`.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Peer> {
        self.connect_to(&address.into())
    }

    /// Connects to a listening Unix socket of this world.
    ///
    /// # Errors
    /// `NotFound` if no socket was ever at `path`, `ConnectionRefused` if it was closed.
    pub fn connect_unix(&self, path: impl Into<PathBuf>) -> io::Result<Peer> {
        self.connect_to(&Address::Unix(path.into()))
    }

    fn connect_to(&self, address: &Address) -> io::Result<Peer> {
        let end = net::connect(&mut self.state(), address)?;
        Ok(Peer::new(self.clone(), end))
    }

    /// A UDP socket at `address`, for a client or for one of this world's drivers to adopt. Port 0 selects a free
    /// port.
    ///
    /// # Errors
    /// `AddrInUse` if another socket is bound to `address`.
    pub fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpPeer> {
        let socket = udp::bind(&mut self.state(), address)?;
        Ok(UdpPeer::new(self.clone(), socket))
    }

    /// Both ends of a new connection, without a listener.
    pub fn pair(&self) -> (Peer, Peer) {
        let end = net::pair(&mut self.state(), SocketAddr::from(([10, 0, 0, 1], 1)).into());
        (Peer::new(self.clone(), end.other()), Peer::new(self.clone(), end))
    }

    /// Sets the maximum number of bytes in transit in each direction of a connection, 64 KiB by default. At that limit
    /// the sender waits. Receive buffers of UDP sockets are bounded by the same number, but hold at least one datagram.
    pub fn set_pipe_capacity(&self, bytes: usize) {
        self.state().net.pipe_capacity = bytes;
    }

    /// The root directory of the world's disk.
    pub fn root(&self) -> File {
        Node::directory(self.clone(), ROOT).into()
    }

    /// A directory of the world's disk, which is created if it does not exist.
    ///
    /// # Panics
    /// If the path leads through a file.
    pub fn directory(&self, path: &str) -> File {
        let node = self.state().disk.directory(path);
        Node::directory(self.clone(), node).into()
    }

    /// Writes a file with content `bytes`: creates it and the directories of its path, or replaces its
    /// content.
    ///
    /// # Panics
    /// If the path leads through a file, or to a directory.
    pub fn write(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        // The caller's conversion may use the world, so it runs before the lock is taken.
        let bytes = bytes.into();
        let state = &mut *self.state();
        let now = state.clock.time_of_day().as_nanos() as i128;
        state.disk.write(path, bytes, now);
    }

    /// Creates a symbolic link to `target`.
    ///
    /// # Panics
    /// Like [`World::write`].
    pub fn link(&self, path: &str, target: &str) {
        self.state().disk.link(path, target);
    }

    /// Removes a name, as if its directory had been synced. A file that is open stays usable. Returns true if the name
    /// existed.
    pub fn remove(&self, path: &str) -> bool {
        self.state().disk.remove(path)
    }

    /// The content of the file at `path` after a power failure at this moment: all synced bytes and, at random, some of
    /// the bytes written since. `None` if there is no such file, or if its name would be lost because its directory was
    /// not synced. A file that a program has removed may reappear, unless the directory was synced since.
    pub fn content_after_power_cut(&self, path: &str) -> Option<Vec<u8>> {
        let state = &mut *self.state();
        state.disk.survivors(path, &mut state.rng)
    }

    /// The number of open sockets, connections and listeners: zero when all programs and clients have closed theirs.
    pub fn open_sockets(&self) -> usize {
        let state = self.state();
        state.net.open() + state.udp.open()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.u32(..1000) < per_mille
    }

    /// Draws the time at which something sent now arrives.
    pub(crate) fn arrival(&mut self) -> u64 {
        let after = if self.chance(self.faults.slow) {
            self.rng.u64(..2_000_000_000)
        } else {
            self.rng.u64(..200_000)
        };
        self.clock.expect_after(after)
    }

    /// Draws the number of bytes that a call moves, at most `max`.
    pub(crate) fn portion(&mut self, max: usize) -> usize {
        if max > 1 && self.chance(self.faults.short) { self.rng.usize(1..=max) } else { max }
    }

    pub(crate) fn changed(&mut self) {
        self.changes += 1;
    }
}
