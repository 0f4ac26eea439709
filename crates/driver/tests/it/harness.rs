//! A driver, and a caller that waits a bounded time for its requests.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use phalanx_driver::{
    Chunk, Completion, Config, Done, Driver, DriverChoice, Endpoint, File, FileTransfer, Payload,
    Request, Socket, Token, choose, open, sim,
};

use phalanx_testkit::driver::is_selected;
use phalanx_testkit::{TIMEOUT, within_limit};

use crate::disk::Disk;
use crate::peer::{Outside, Peer};

/// The driver under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriverKind {
    Uring,
    Poll,
    Sim,
}

pub(crate) struct Harness {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) kind: DriverKind,
    pub(crate) outside: Outside,
    /// How [`send_file`](Self::send_file) sends.
    pub(crate) transfer: FileTransfer,
    next: u64,
    completed: HashMap<Token, io::Result<Done>>,
}

/// Runs a test with the driver named `uring`, `poll` or `sim`, and fails it if it hangs. Skips it if the machine lacks
/// the driver.
pub(crate) fn run(driver: &str, test: fn(&mut Harness)) {
    run_with(driver, Config::default(), test);
}

pub(crate) fn run_with(driver: &str, config: Config, test: fn(&mut Harness)) {
    let (kind, available) = match driver {
        "uring" => (DriverKind::Uring, choose(DriverChoice::Uring).map(drop)),
        "poll" => (DriverKind::Poll, Ok(())),
        _ => (DriverKind::Sim, Ok(())),
    };
    if kind == DriverKind::Sim || is_selected(driver, || available) {
        within_limit(move || test(&mut Harness::new(kind, &config)));
    }
}

impl Harness {
    pub(crate) fn new(kind: DriverKind, config: &Config) -> Harness {
        Self::in_world(kind, config, Outside((kind == DriverKind::Sim).then(world)))
    }

    fn in_world(kind: DriverKind, config: &Config, outside: Outside) -> Harness {
        let driver: Box<dyn Driver> = match (kind, &outside.0) {
            (DriverKind::Uring, _) => open(phalanx_driver::DriverKind::Uring, config).unwrap(),
            (_, Some(world)) => Box::new(world.driver(config).unwrap()),
            _ => open(phalanx_driver::DriverKind::Poll, config).unwrap(),
        };
        let transfer = FileTransfer::Copy;
        Harness { driver, kind, outside, transfer, next: 0, completed: HashMap::new() }
    }

    /// Another driver of the same kind and world.
    pub(crate) fn second(&self) -> Harness {
        Self::in_world(self.kind, &Config::default(), Outside(self.outside.0.clone()))
    }

    pub(crate) fn start(&mut self, request: Request) -> Token {
        self.next += 1;
        self.driver.start(Token(self.next), request);
        Token(self.next)
    }

    /// One turn of a processor: submit, sleep at most `limit`, reap.
    pub(crate) fn turn(&mut self, limit: Duration) {
        self.driver.park(Some(limit)).unwrap();
        let mut batch = Vec::new();
        let count = self.driver.reap(&mut batch).unwrap();
        assert_eq!(count, batch.len());
        for Completion { token, result } in batch {
            let twice = self.completed.insert(token, result);
            assert!(twice.is_none(), "{token:?} completed twice");
        }
    }

    /// The result of `token`, if it has completed.
    pub(crate) fn take(&mut self, token: Token) -> Option<io::Result<Done>> {
        self.completed.remove(&token)
    }

    /// Waits for the result of `token`.
    pub(crate) fn finish(&mut self, token: Token) -> io::Result<Done> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(result) = self.take(token) {
                return result;
            }
            assert!(Instant::now() < deadline, "{token:?} did not complete");
            self.turn(Duration::from_secs(1));
        }
    }

    /// Waits for `token` to fail, and returns the error code.
    pub(crate) fn error(&mut self, token: Token) -> i32 {
        let error = self.finish(token).unwrap_err();
        error.raw_os_error().unwrap_or_else(|| panic!("{error}"))
    }

    /// Runs the driver for `time`, and for at least four turns, however long they take.
    pub(crate) fn idle(&mut self, time: Duration) {
        let end = Instant::now() + time;
        for turns in 0.. {
            let remaining = end.saturating_duration_since(Instant::now());
            if turns >= 4 && remaining.is_zero() {
                return;
            }
            self.turn(remaining.clamp(Duration::from_millis(1), Duration::from_millis(5)));
        }
    }

    pub(crate) fn receive(&mut self, socket: Socket) -> Token {
        self.start(Request::Receive { socket, max: usize::MAX })
    }

    pub(crate) fn received(&mut self, socket: Socket) -> io::Result<Chunk> {
        let token = self.receive(socket);
        self.chunk(token)
    }

    pub(crate) fn chunk(&mut self, token: Token) -> io::Result<Chunk> {
        match self.finish(token)? {
            Done::Received(chunk) => Ok(chunk),
            other => panic!("{other:?}"),
        }
    }

    /// Receives until there are `count` bytes.
    pub(crate) fn received_exactly(&mut self, socket: Socket, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let chunk = self.received(socket).unwrap();
            assert!(!chunk.is_empty(), "the end after {} of {count} bytes", bytes.len());
            bytes.extend_from_slice(&chunk);
        }
        assert_eq!(bytes.len(), count);
        bytes
    }

    pub(crate) fn send(&mut self, socket: Socket, head: &[u8], body: impl Into<Bytes>) -> Token {
        let payload = Payload { head: head.to_vec(), body: body.into() };
        self.start(Request::Send { socket, payload })
    }

    pub(crate) fn sent(&mut self, token: Token) -> io::Result<()> {
        match self.finish(token)? {
            Done::Sent(head) => assert!(head.is_empty()),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    pub(crate) fn send_file(
        &mut self,
        socket: Socket,
        head: &str,
        file: &File,
        offset: u64,
        length: u64,
    ) -> Token {
        let (head, file) = (head.into(), file.clone());
        let transfer = self.transfer;
        self.start(Request::SendFile { socket, head, file, offset, length, transfer })
    }

    /// Waits for the send, and returns the number of bytes of the file that were sent.
    pub(crate) fn sent_file(&mut self, token: Token) -> io::Result<u64> {
        match self.finish(token)? {
            Done::SentFile { head, bytes } => {
                assert!(head.is_empty());
                Ok(bytes)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits for a read, and returns its bytes.
    pub(crate) fn read(&mut self, token: Token) -> Vec<u8> {
        match self.finish(token).unwrap() {
            Done::Read(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    /// A listening socket of the driver, and its address.
    pub(crate) fn listener(&mut self) -> (Socket, std::net::SocketAddr) {
        let endpoint = match &self.outside.0 {
            None => TcpListener::bind("127.0.0.1:0").unwrap().into(),
            Some(world) => world.listen("10.0.0.1:0".parse().unwrap()),
        };
        let socket = self.driver.adopt(endpoint).unwrap();
        (socket, self.driver.local_addr(socket).unwrap())
    }

    /// A connection: one end belongs to the driver, the other one is a plain blocking socket.
    pub(crate) fn pair(&mut self) -> (Socket, Peer) {
        let (local, peer) = self.ends();
        (self.driver.adopt(local).unwrap(), peer)
    }

    /// A connection whose end no driver has adopted yet.
    pub(crate) fn ends(&mut self) -> (Endpoint, Peer) {
        if let Some(world) = &self.outside.0 {
            let (local, end) = world.pair();
            let end = Arc::new(end);
            return (local.into(), Peer::Simulated { world: world.clone(), end, blocks: true });
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nodelay(true).unwrap();
        peer.set_read_timeout(Some(TIMEOUT)).unwrap();
        peer.set_write_timeout(Some(TIMEOUT)).unwrap();
        let (local, _) = listener.accept().unwrap();
        local.set_nodelay(true).unwrap();
        (local.into(), Peer::Real(peer))
    }

    /// An empty directory.
    pub(crate) fn disk(&self) -> Disk {
        match &self.outside.0 {
            None => Disk::Real(tempfile::tempdir().unwrap()),
            Some(world) => Disk::Simulated(world.clone()),
        }
    }

    pub(crate) fn accepted(&mut self, token: Token) -> Socket {
        match self.finish(token).unwrap() {
            Done::Accepted(socket) => socket,
            other => panic!("{other:?}"),
        }
    }
}

/// A world in which requests wait, and connections hold as many bytes as in a kernel. Small messages arrive
/// whole, and soon.
fn world() -> sim::World {
    let world = sim::World::new(5);
    world.set_faults(sim::Faults { short: 0, slow: 0, ..sim::Faults::MILD });
    world.set_pipe_capacity(4 << 20);
    world
}

/// Bytes that identify their position in a stream.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Reads `length` bytes on a thread of its own, with pauses.
pub(crate) fn read_slowly(mut peer: Peer, length: usize) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut received, mut part) = (Vec::new(), vec![0; 48 << 10]);
        while received.len() < length {
            let read = peer.read(&mut part).unwrap();
            assert!(read > 0);
            received.extend_from_slice(&part[..read]);
            if received.len() % 7 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        received
    })
}

/// Writes in the background, because the kernel may not accept everything at once.
pub(crate) fn write_all(peer: &Peer, bytes: impl Into<Arc<[u8]>>) -> thread::JoinHandle<()> {
    let (mut peer, bytes) = (peer.try_clone().unwrap(), bytes.into());
    thread::spawn(move || peer.write_all(&bytes).unwrap())
}
