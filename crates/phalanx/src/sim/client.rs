//! Clients: asynchronous code outside the simulated program.
//!
//! A waiting client is polled again after each change in the world, so waiting needs no registration.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use phalanx_driver::sim::{Faults, Peer, UdpPeer, World};

use super::programs::orders::Orders;
use crate::nanoseconds::nanoseconds;

/// The simulated network and disk, as clients see them. Clones share them.
#[derive(Clone, Debug)]
pub struct Net {
    pub(super) world: World,
    pub(super) orders: Orders,
}

impl Net {
    /// Starts the program's drain, as a signal would.
    pub fn drain(&self) {
        self.orders.drain();
    }

    /// Whether a client has started the drain.
    pub fn is_draining(&self) -> bool {
        self.orders.drains()
    }

    /// Sets the frequency of faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.set_faults(faults);
    }

    /// Sets the disk's capacity in bytes. Writes beyond it fail with `ENOSPC`.
    pub fn set_disk_capacity(&self, bytes: u64) {
        self.world.set_disk_capacity(bytes);
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// `ConnectionRefused` if no server listens at `address`.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Client> {
        self.sleep(Duration::from_nanos(self.world.draw(1_000_000))).await;
        Ok(Client(self.world.connect(address)?))
    }

    /// Connects to a server's Unix socket.
    ///
    /// # Errors
    /// `NotFound` if no server ever listened at `path`, `ConnectionRefused` if none listens now.
    pub async fn connect_unix(&self, path: impl AsRef<Path>) -> io::Result<Client> {
        self.sleep(Duration::from_nanos(self.world.draw(1_000_000))).await;
        Ok(Client(self.world.connect_unix(path.as_ref())?))
    }

    /// A client's UDP socket at `address`. Port 0 selects a free port.
    ///
    /// # Errors
    /// `AddrInUse` if another socket is bound to `address`.
    pub fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpClient> {
        Ok(UdpClient(self.world.bind_udp(address)?))
    }

    /// Waits until `duration` of virtual time has passed. Waits forever if that is beyond the range of the clock (584
    /// years).
    pub async fn sleep(&self, duration: Duration) {
        let nanoseconds = nanoseconds(duration);
        if self.world.now().checked_add(nanoseconds).is_none() {
            return pending().await;
        }
        let until = self.world.expect_after(nanoseconds);
        poll_fn(|_| if self.world.now() >= until { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// The time since the start of the world.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world.now())
    }

    /// The simulated time of day, since 1970.
    pub fn time_of_day(&self) -> Duration {
        self.world.time_of_day()
    }

    /// A random number below `bound`, determined by the seed.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn draw(&self, bound: u64) -> u64 {
        self.world.draw(bound)
    }

    /// Creates a file or replaces its content.
    pub fn write_file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.world.write(path, bytes);
    }

    /// The content that a file would have after a power cut at this moment: all synced bytes, and a part of the
    /// unsynced ones that the seed determines. Returns `None` if the file would not exist.
    pub fn content_after_power_cut(&self, path: &str) -> Option<Vec<u8>> {
        self.world.content_after_power_cut(path)
    }

    /// Removes a file. Returns whether it existed.
    pub fn remove_file(&self, path: &str) -> bool {
        self.world.remove(path)
    }
}

/// A client's connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct Client(Peer);

fn pending_if_blocked<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl Client {
    /// Waits for bytes and appends them to `buffer`. Returns their number; zero at the end of the stream.
    ///
    /// # Errors
    /// `ConnectionReset`.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut bytes = [0; 4096];
        let count = poll_fn(|_| pending_if_blocked(self.0.try_read(&mut bytes))).await?;
        buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// `ConnectionReset`, `BrokenPipe`.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = poll_fn(|_| pending_if_blocked(self.0.try_write(bytes))).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Shuts down one or both directions of the connection.
    ///
    /// # Errors
    /// `NotConnected` after a reset.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Resets the connection. The server loses bytes in flight.
    pub fn reset(self) {
        self.0.reset();
    }
}

/// A client's UDP socket. Dropping it closes the socket.
///
/// ```
/// use phalanx::net::{IoTimeout, UdpSocket};
/// use phalanx::{Graph, sim};
///
/// sim::explore(5, |world| {
///     world.set_processors(1);
///     let address = "10.0.0.1:7".parse().unwrap();
///     let mut graph = Graph::new();
///     let echo = graph.shared("echo", ());
///     world.program(graph, move |_| {
///         let socket = UdpSocket::bind(address)?;
///         echo.dispatch(move |_| async move {
///             let mut buffer = [0; 100];
///             let received = socket.recv_from(&mut buffer, IoTimeout::NONE).await.unwrap();
///             let answer = buffer[..received.length].to_vec();
///             socket.send_to(answer, received.from, IoTimeout::NONE).await.unwrap();
///         })?;
///         Ok(())
///     });
///     let net = world.net();
///     world.client(async move {
///         let client = net.bind_udp("10.0.0.2:0".parse().unwrap()).unwrap();
///         client.send_to(b"hello", address).unwrap();
///         let mut buffer = [0; 100];
///         assert_eq!(client.recv_from(&mut buffer).await.unwrap(), (5, address));
///     });
/// });
/// ```
#[derive(Debug)]
pub struct UdpClient(UdpPeer);

impl UdpClient {
    /// Sends a datagram, which the network may lose, duplicate or reorder according to [`Faults`].
    ///
    /// # Errors
    /// `EMSGSIZE` above 65,507 bytes.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.0.send_to(datagram, to)
    }

    /// Waits for a datagram. Returns its length in `buffer` and its sender. The end of a longer datagram is lost.
    ///
    /// # Errors
    /// Currently none.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|_| pending_if_blocked(self.0.try_recv_from(buffer))).await
    }

    /// The address to which the socket is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// A client and its wake-up state.
pub(super) struct Task {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    wake_flag: Arc<Flag>,
    /// The number of world changes at the last poll.
    last_changes: u64,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Task {
    pub(super) fn new(future: impl Future<Output = ()> + 'static) -> Self {
        let wake_flag = Arc::new(Flag(AtomicBool::new(true)));
        Self { future: Some(Box::pin(future)), wake_flag, last_changes: 0 }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.future.is_none()
    }

    /// Whether a poll may make progress.
    pub(super) fn may_run(&self, world_changes: u64) -> bool {
        !self.is_finished()
            && (self.last_changes != world_changes || self.wake_flag.0.load(Ordering::Relaxed))
    }

    pub(super) fn poll(&mut self, world: &World) {
        self.wake_flag.0.store(false, Ordering::Relaxed);
        self.last_changes = world.changes();
        let waker = Waker::from(self.wake_flag.clone());
        let future = self.future.as_mut().expect("a finished client is not polled");
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.future = None;
        }
    }
}
