//! A closed loop of one request over many connections, whose replies have the same length.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::error::Error;
use crate::system::interrupt::interrupted;

/// Time without another byte after which the first reply is complete.
const REPLY_END: Duration = Duration::from_millis(200);
/// Maximum time for a reply.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_EVENTS: usize = 1024;

/// The connections to one server.
pub(super) struct Exchange {
    poll: Poll,
    connections: Vec<Connection>,
    request: Vec<u8>,
    reply_bytes: usize,
}

struct Connection {
    stream: TcpStream,
    /// Bytes of the reply that have not arrived.
    missing: usize,
}

impl Exchange {
    /// Sends `prepare` on a connection of its own, then opens `count` connections. The length of the reply to
    /// `request` is that of the first.
    pub(super) fn connect(
        address: SocketAddr,
        prepare: Option<&[u8]>,
        request: &[u8],
        count: usize,
    ) -> io::Result<Self> {
        let mut first = std::net::TcpStream::connect(address)?;
        if let Some(prepare) = prepare {
            ask(&mut first, prepare)?;
        }
        let reply_bytes = ask(&mut first, request)?;
        drop(first);
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(count);
        for i in 0..count {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(i), Interest::READABLE)?;
            connections.push(Connection { stream, missing: 0 });
        }
        Ok(Self { poll, connections, request: request.to_vec(), reply_bytes })
    }

    /// Keeps one request in flight on each connection until `is_over`, which is told the number of replies; then
    /// awaits the rest. Returns the number of replies.
    pub(super) fn run(&mut self, is_over: impl Fn(usize) -> bool) -> Result<usize, Error> {
        let mut answered = 0;
        let mut in_flight = self.connections.len();
        for connection in &mut self.connections {
            connection.send(&self.request, self.reply_bytes)?;
        }
        let mut events = Events::with_capacity(MAX_EVENTS);
        let mut buffer = vec![0; 64 << 10];
        let mut progress = Instant::now();
        while in_flight > 0 {
            interrupted()?;
            match self.poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            if !events.is_empty() {
                progress = Instant::now();
            } else if progress.elapsed() > TIMEOUT {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let is_last = is_over(answered);
            for event in &events {
                let connection = &mut self.connections[event.token().0];
                if !connection.receive(&mut buffer)? {
                    continue;
                }
                answered += 1;
                if is_last {
                    in_flight -= 1;
                } else {
                    connection.send(&self.request, self.reply_bytes)?;
                }
            }
        }
        Ok(answered)
    }
}

impl Connection {
    /// Requests are small, so that the socket's buffer has room.
    fn send(&mut self, request: &[u8], reply_bytes: usize) -> io::Result<()> {
        self.missing = reply_bytes;
        self.stream.write_all(request)
    }

    /// Reads what has arrived. Whether the reply is complete.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        if self.missing == 0 {
            return Ok(false);
        }
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) if bytes > self.missing => {
                    return Err(io::Error::other("a reply is longer than the first"));
                }
                Ok(bytes) => self.missing -= bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.missing == 0 {
                return Ok(true);
            }
        }
    }
}

/// Sends a request on a connection of its own.
pub(super) fn ask_once(address: SocketAddr, request: &[u8]) -> io::Result<()> {
    ask(&mut std::net::TcpStream::connect(address)?, request).map(drop)
}

/// Sends a request and returns the length of its reply.
fn ask(stream: &mut std::net::TcpStream, request: &[u8]) -> io::Result<usize> {
    stream.write_all(request)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = [0; 4096];
    let mut length = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => length += bytes,
            Err(error) if length > 0 && error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(length);
            }
            Err(error) => return Err(error),
        }
        stream.set_read_timeout(Some(REPLY_END))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_one_request_in_flight() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                std::thread::spawn(move || {
                    let mut request = [0; 4];
                    while stream.read_exact(&mut request).is_ok() {
                        assert_eq!(&request, b"ping");
                        let _ = stream.write_all(b"po").and_then(|()| stream.write_all(b"ng!"));
                    }
                });
            }
        });
        let mut exchange = Exchange::connect(address, Some(b"ping"), b"ping", 3).unwrap();
        assert_eq!(exchange.reply_bytes, 5);
        let answered = exchange.run(|answered| answered >= 20).unwrap();
        assert!((20..=26).contains(&answered), "{answered}");
        // The connections are idle, and can be used again.
        assert_eq!(exchange.run(|_| true).unwrap(), 3);
    }
}
