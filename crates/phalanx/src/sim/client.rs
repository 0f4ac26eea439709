//! Clients: plain async code outside of the program.
//!
//! A client that waits is polled again whenever anything has changed in the world, so that waiting
//! needs no registration anywhere, and a client is no part of what is tested.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use phalanx_driver::sim::{Faults, Peer, UdpPeer, World};

/// The simulated network, as clients see it. Clones are the same.
#[derive(Clone, Debug)]
pub struct Net(World, Rc<Cell<bool>>);

impl Net {
    pub(super) fn new(world: World, drains: Rc<Cell<bool>>) -> Self {
        Self(world, drains)
    }

    /// Asks the program to finish, as a signal would, in the middle of what is going on.
    pub fn drain(&self) {
        self.1.set(true);
    }

    /// Whether a client has asked the program to finish.
    pub fn is_drained(&self) -> bool {
        self.1.get()
    }

    /// How often things go wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.0.set_faults(faults);
    }

    /// How many bytes all files of the disk may have together from now on: more finds it full (`ENOSPC`).
    pub fn set_disk_capacity(&self, bytes: u64) {
        self.0.set_disk_capacity(bytes);
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens at `address`.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Client> {
        self.sleep(Duration::from_nanos(self.0.draw(1_000_000))).await;
        Ok(Client(self.0.connect(address)?))
    }

    /// Connects to a server's Unix socket.
    ///
    /// # Errors
    /// `NotFound` if no server ever listened at `path`, `ConnectionRefused` if none listens now.
    pub async fn connect_unix(&self, path: impl AsRef<Path>) -> io::Result<Client> {
        self.sleep(Duration::from_nanos(self.0.draw(1_000_000))).await;
        Ok(Client(self.0.connect_unix(path.as_ref())?))
    }

    /// A client's UDP socket at `address`. Port 0 selects a free port.
    ///
    /// # Errors
    /// `AddrInUse` if another socket is bound to `address`.
    pub fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpClient> {
        Ok(UdpClient(self.0.bind_udp(address)?))
    }

    /// Lets time pass.
    pub async fn sleep(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        let until = self.0.expect_after(nanoseconds);
        poll_fn(|_| if self.0.now() >= until { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// The time since the world's beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now())
    }

    /// The time of day, since 1970.
    pub fn time_of_day(&self) -> Duration {
        self.0.time_of_day()
    }

    /// A number below `bound`, from the seed.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn draw(&self, bound: u64) -> u64 {
        self.0.draw(bound)
    }

    /// Gives a file new content, or makes it.
    pub fn write_file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.0.write(path, bytes);
    }

    /// What a power cut at this moment would leave of a file: all that was synced, and of what was
    /// written since, some, by the seed. None if it would be gone altogether.
    pub fn survivors(&self, path: &str) -> Option<Vec<u8>> {
        self.0.survivors(path)
    }

    /// Takes a file's name away. True if there was one.
    pub fn remove_file(&self, path: &str) -> bool {
        self.0.remove(path)
    }
}

/// A client's connection. Dropping it closes it.
#[derive(Debug)]
pub struct Client(Peer);

fn unless_blocked<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl Client {
    /// Waits for bytes and appends them to `buffer`. Returns how many; zero is the end.
    ///
    /// # Errors
    /// `ConnectionReset`.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut bytes = [0; 4096];
        let count = poll_fn(|_| unless_blocked(self.0.try_read(&mut bytes))).await?;
        buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// `ConnectionReset`, `BrokenPipe`.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = poll_fn(|_| unless_blocked(self.0.try_write(bytes))).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Says that nothing more will be sent, or received.
    ///
    /// # Errors
    /// `NotConnected` after a reset.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Closes the connection so that the server loses what is on its way.
    pub fn reset(self) {
        self.0.reset();
    }
}

/// A client's UDP socket. Dropping it closes it.
#[derive(Debug)]
pub struct UdpClient(UdpPeer);

impl UdpClient {
    /// Sends a datagram, which the network may lose, duplicate or reorder as [`Faults`] have it.
    ///
    /// # Errors
    /// `EMSGSIZE` above 65,507 bytes.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.0.send_to(datagram, to)
    }

    /// Waits for a datagram: its length in `buffer`, and its sender. The end of a longer datagram is lost.
    ///
    /// # Errors
    /// None today.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|_| unless_blocked(self.0.try_recv_from(buffer))).await
    }

    /// The address to which it is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// A client in the scheduler's hands.
pub(super) struct Task {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    woken: Arc<Flag>,
    /// The world's changes that it has seen.
    seen: u64,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Task {
    pub(super) fn new(future: impl Future<Output = ()> + 'static) -> Self {
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        Self { future: Some(Box::pin(future)), woken, seen: 0 }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.future.is_none()
    }

    /// Whether a poll may bring it further.
    pub(super) fn may_run(&self, changes: u64) -> bool {
        !self.is_finished() && (self.seen != changes || self.woken.0.load(Ordering::Relaxed))
    }

    pub(super) fn poll(&mut self, world: &World) {
        self.woken.0.store(false, Ordering::Relaxed);
        self.seen = world.changes();
        let waker = Waker::from(self.woken.clone());
        let future = self.future.as_mut().expect("polled until it is finished");
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.future = None;
        }
    }
}
