//! A server behind the proxy whose connections a test drives by hand.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use phalanx_testkit::http::find;
use phalanx_testkit::tcp;
use phalanx_web::{Config, Proxy};

/// A server behind the proxy.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    /// Starts a server. Each connection is passed to `serve` on a thread of its own, with its number from 0.
    pub(crate) fn new(serve: impl Fn(Peer, usize) + Send + Sync + 'static) -> Self {
        let (listener, address) = tcp::listener();
        let (accepted, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (accepted.clone(), ends.clone());
        let serve = Arc::new(serve);
        let thread = thread::spawn(move || {
            let (mut all, mut open) = (Vec::new(), Vec::new());
            for stream in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                let (serve, number) = (serve.clone(), count.fetch_add(1, Ordering::Relaxed));
                let stream = tcp::with_timeouts(stream.unwrap());
                open.push(stream.try_clone().unwrap());
                all.push(thread::spawn(move || {
                    let closing = stream.try_clone().unwrap();
                    serve(Peer { stream, rest: Vec::new() }, number);
                    // Dropping it closes nothing while there are clones.
                    let _ = closing.shutdown(Shutdown::Both);
                }));
            }
            // The proxy keeps unused connections.
            for stream in open {
                let _ = stream.shutdown(Shutdown::Both);
            }
            // A failed assertion in a connection fails the test.
            all.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { address, accepted, ends, thread: Some(thread) }
    }

    /// Number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        let ended = self.thread.take().expect("once").join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

/// An address at which no server listens, and no other test will start one.
pub(crate) fn down() -> SocketAddr {
    let listener = TcpListener::bind((tcp::unique_loopback(), 0)).unwrap();
    listener.local_addr().unwrap()
}

/// The proxy's connection to a backend.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    rest: Vec<u8>,
}

impl Peer {
    /// Reads up to and including `end`. `None` if the proxy closes before the first byte.
    pub(crate) fn read_until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some(at) = find(&self.rest, end.as_bytes()) {
                let after = self.rest.split_off(at + end.len());
                let text = std::mem::replace(&mut self.rest, after);
                return Some(String::from_utf8(text).unwrap());
            }
            let mut piece = [0; 16 * 1024];
            match tcp::read(&mut self.stream, &mut piece) {
                Ok(count @ 1..) => self.rest.extend_from_slice(&piece[..count]),
                _ if self.rest.is_empty() => return None,
                end => panic!("{end:?} after {:?}", String::from_utf8_lossy(&self.rest)),
            }
        }
    }

    /// Reads a request's head.
    pub(crate) fn head(&mut self) -> Option<String> {
        self.read_until("\r\n\r\n")
    }

    /// Reads this many bytes of a body.
    pub(crate) fn body(&mut self, length: usize) -> Vec<u8> {
        let mut piece = [0; 64 * 1024];
        while self.rest.len() < length {
            let count = tcp::read(&mut self.stream, &mut piece).unwrap();
            assert!(count > 0, "closed within a body");
            self.rest.extend_from_slice(&piece[..count]);
        }
        let after = self.rest.split_off(length);
        std::mem::replace(&mut self.rest, after)
    }

    /// Reads until the proxy closes.
    pub(crate) fn drain(&mut self) {
        while matches!(tcp::read(&mut self.stream, &mut [0; 16 * 1024]), Ok(1..)) {}
    }

    /// Sends. The proxy may have closed the connection.
    pub(crate) fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }
}

/// A configuration that passes `/api` to this address.
pub(crate) fn passing(address: SocketAddr, change: impl Fn(&mut Proxy)) -> Config {
    let to = vec![format!("http://{address}").parse().unwrap()];
    let mut proxy = Proxy { prefix: "/api".into(), to, ..Proxy::default() };
    change(&mut proxy);
    let mut config = Config::with_root(".");
    config.hosts[0].proxies = vec![proxy];
    // Each worker has connections and bounds of its own.
    config.runtime.workers = 1;
    config
}
