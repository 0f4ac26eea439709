//! The floor: the minimum cost of an HTTP server on one of our drivers.
//!
//! A bare loop without stages, with one answer for every request. The difference to a staged server is the cost
//! of stages, parsing and files; the floor itself is the cost of the kernel and the driver.

use std::io;
use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use phalanx_driver::{
    Completion, Config, Done, Driver, DriverKind, Payload, Request, Socket, Token,
};
use slab::Slab;

/// Size of the answer's body: the mean of the files of `phalanx-bench web`.
pub const BODY: usize = 2442;

/// Token of the listening socket.
const LISTENER: Token = Token(u64::MAX);

/// A server with a single answer.
pub struct Floor {
    driver: Box<dyn Driver>,
    listener: Socket,
    connections: Slab<Connection>,
    answer: Bytes,
}

struct Connection {
    socket: Socket,
    /// Number of received bytes of the end of a head, CR LF CR LF.
    matched: usize,
}

impl Floor {
    /// A server on the calling thread with this driver. Accepted connections inherit the listener's options.
    ///
    /// # Errors
    /// When the driver is unavailable or cannot register the listener.
    pub fn new(kind: DriverKind, listener: TcpListener) -> io::Result<Self> {
        let mut driver = phalanx_driver::open(kind, &Config::default())?;
        let listener = driver.adopt(listener.into())?;
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Type: text/plain\r\n\
             Content-Length: {BODY}\r\n\r\n"
        );
        let mut answer = head.into_bytes();
        answer.resize(answer.len() + BODY, b'x');
        Ok(Self { driver, listener, connections: Slab::new(), answer: answer.into() })
    }

    /// Serves until the driver fails.
    ///
    /// # Errors
    /// The driver's error.
    pub fn serve(mut self) -> io::Result<()> {
        let mut completions = Vec::new();
        self.accept();
        loop {
            if self.driver.reap(&mut completions)? == 0 {
                self.driver.park(None)?;
                continue;
            }
            for Completion { token, result } in completions.drain(..) {
                match result {
                    Ok(Done::Accepted(socket)) => {
                        let key = self.connections.insert(Connection { socket, matched: 0 });
                        self.accept();
                        self.driver
                            .start(Token(key as u64), Request::Receive { socket, max: usize::MAX });
                    }
                    Ok(Done::Received(bytes)) if !bytes.is_empty() => self.answer(token, &bytes),
                    Ok(Done::Sent(_)) => self.receive(token),
                    _ if token == LISTENER => self.accept(),
                    _ => self.close(token),
                }
            }
        }
    }

    fn accept(&mut self) {
        self.driver.start(LISTENER, Request::Accept { listener: self.listener });
    }

    fn receive(&mut self, token: Token) {
        let socket = self.connections[token.0 as usize].socket;
        self.driver.start(token, Request::Receive { socket, max: usize::MAX });
    }

    fn close(&mut self, token: Token) {
        let connection = self.connections.remove(token.0 as usize);
        self.driver.close(connection.socket);
    }

    /// Answers every request whose head ends in `bytes`.
    fn answer(&mut self, token: Token, bytes: &[u8]) {
        let connection = &mut self.connections[token.0 as usize];
        let heads = heads(&mut connection.matched, bytes);
        let socket = connection.socket;
        let payload = match heads {
            0 => return self.receive(token),
            1 => Payload { head: Vec::new(), body: self.answer.clone() },
            _ => Payload { head: self.answer.repeat(heads - 1), body: self.answer.clone() },
        };
        self.driver.start(token, Request::Send { socket, payload });
    }
}

/// Number of heads that end in `bytes`; `matched` holds the state between calls.
fn heads(matched: &mut usize, bytes: &[u8]) -> usize {
    let mut heads = 0;
    for &byte in bytes {
        *matched = match (byte, *matched) {
            (b'\r', 0 | 2) | (b'\n', 1) => *matched + 1,
            (b'\n', 3) => {
                heads += 1;
                0
            }
            (b'\r', _) => 1,
            _ => 0,
        };
    }
    heads
}

/// Listens on `address`, announces it on standard output, and serves with this many threads.
///
/// # Errors
/// Like [`Floor::serve`], and when it cannot listen on the address.
pub fn run(kind: DriverKind, address: SocketAddr, processors: usize) -> io::Result<()> {
    let mut listeners = phalanx::net::bind(address, processors)?;
    let here = listeners.pop().ok_or_else(|| io::Error::other("no listener"))?;
    let address = here.local_addr()?;
    for listener in listeners {
        std::thread::spawn(move || Floor::new(kind, listener)?.serve());
    }
    let floor = Floor::new(kind, here)?;
    crate::baselines::announce(address);
    floor.serve()
}

/// A listener whose connections have Nagle's algorithm disabled.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    phalanx::net::bind(address, 1)?.pop().ok_or_else(|| io::Error::other("no listener"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_counted_across_pieces() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\r\n\r\n\r\n\r\n";
        let whole = heads(&mut 0, bytes);
        for piece in 1..bytes.len() {
            let mut matched = 0;
            let sum: usize = bytes.chunks(piece).map(|piece| heads(&mut matched, piece)).sum();
            assert_eq!(sum, whole);
        }
        assert_eq!(heads(&mut 0, b"GET / HTTP/1.1\r\n\r\n"), 1);
    }
}
