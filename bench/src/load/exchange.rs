//! A closed loop of one request over many connections, whose replies have the same length and the same beginning.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::error::Error;
use crate::system::interrupted;

/// Time without another byte after which the first reply is complete.
const REPLY_END: Duration = Duration::from_millis(200);
/// Maximum time for a reply.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_EVENTS: usize = 1024;

/// A request, and the beginning of its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) request: &'static [u8],
    pub(crate) reply: &'static [u8],
}

/// The connections to one server.
pub(crate) struct Exchange {
    poll: Poll,
    connections: Vec<Connection>,
    address: SocketAddr,
    query: Query,
    reply_bytes: usize,
    /// Requests after which a connection is replaced, if the server closes it after a number of them.
    most: Option<usize>,
}

struct Connection {
    stream: TcpStream,
    /// Number of requests that were sent.
    sent: usize,
    /// Bytes of the reply that have arrived.
    arrived: usize,
    /// Whether a request is in flight.
    is_waiting: bool,
}

impl Exchange {
    /// Sends `prepare` on a connection of its own, then opens `count` connections, each of which is replaced after `most`
    /// requests. The length of the reply to `query` is that of the first.
    pub(crate) fn connect(
        address: SocketAddr,
        prepare: Option<Query>,
        query: Query,
        most: Option<usize>,
        count: usize,
    ) -> io::Result<Self> {
        let mut first = std::net::TcpStream::connect(address)?;
        if let Some(prepare) = prepare {
            ask(&mut first, prepare)?;
        }
        let reply_bytes = ask(&mut first, query)?;
        drop(first);
        let poll = Poll::new()?;
        let connections = (0..count).map(|at| Connection::open(address, &poll, at));
        let connections = connections.collect::<io::Result<_>>()?;
        Ok(Self { poll, connections, address, query, reply_bytes, most })
    }

    /// Keeps one request in flight on each connection until `is_over` returns true for the number of replies; then
    /// awaits the rest. Returns the number of replies.
    pub(crate) fn run(&mut self, is_over: impl Fn(usize) -> bool) -> Result<usize, Error> {
        let mut answered = 0;
        let mut in_flight = self.connections.len();
        for connection in &mut self.connections {
            connection.send(self.query)?;
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
                let at = event.token().0;
                let connection = &mut self.connections[at];
                if !connection.receive(&mut buffer, self.query, self.reply_bytes)? {
                    continue;
                }
                answered += 1;
                if self.most.is_some_and(|most| connection.sent >= most) {
                    *connection = Connection::open(self.address, &self.poll, at)?;
                }
                if is_last {
                    in_flight -= 1;
                } else {
                    connection.send(self.query)?;
                }
            }
        }
        Ok(answered)
    }
}

impl Connection {
    /// Opens the connection with this number.
    fn open(address: SocketAddr, poll: &Poll, at: usize) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(at), Interest::READABLE)?;
        Ok(Self { stream, sent: 0, arrived: 0, is_waiting: false })
    }

    /// Requests are small, so that the socket's buffer has room.
    fn send(&mut self, query: Query) -> io::Result<()> {
        (self.sent, self.arrived, self.is_waiting) = (self.sent + 1, 0, true);
        self.stream.write_all(query.request)
    }

    /// Reads what has arrived. Whether the reply is complete.
    fn receive(&mut self, buffer: &mut [u8], query: Query, reply_bytes: usize) -> io::Result<bool> {
        while self.is_waiting {
            let bytes = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            check(query, self.arrived, &buffer[..bytes])?;
            self.arrived += bytes;
            if self.arrived > reply_bytes {
                return Err(io::Error::other("a reply is longer than the first"));
            }
            if self.arrived == reply_bytes {
                self.is_waiting = false;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Checks a part of a reply, which `arrived` bytes precede.
fn check(query: Query, arrived: usize, part: &[u8]) -> io::Result<()> {
    let expected = query.reply.get(arrived..).unwrap_or_default();
    let length = expected.len().min(part.len());
    match part[..length] == expected[..length] {
        true => Ok(()),
        false => {
            let (part, reply) =
                (String::from_utf8_lossy(part), String::from_utf8_lossy(query.reply));
            let reason = format!("a reply is {:?}, and should begin with {reply:?}", part.trim());
            Err(io::Error::other(reason))
        }
    }
}

/// Sends a request on a connection of its own.
pub(crate) fn ask_once(address: SocketAddr, query: Query) -> io::Result<()> {
    ask(&mut std::net::TcpStream::connect(address)?, query).map(drop)
}

/// Sends a request and returns the length of its reply.
fn ask(stream: &mut std::net::TcpStream, query: Query) -> io::Result<usize> {
    stream.write_all(query.request)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = [0; 4096];
    let mut length = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                check(query, length, &buffer[..bytes])?;
                length += bytes;
            }
            Err(error) if length > 0 && error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(length);
            }
            // A signal, which `run` reports.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        stream.set_read_timeout(Some(REPLY_END))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: Query = Query { request: b"ping", reply: b"pong" };

    /// A server that closes a connection after `most` requests, and replies `other` from the request with the number
    /// `wrong` on.
    fn server(most: usize, wrong: usize, other: &'static [u8; 3]) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                std::thread::spawn(move || {
                    let mut request = [0; 4];
                    for n in 0..most {
                        if stream.read_exact(&mut request).is_err() {
                            return;
                        }
                        assert_eq!(&request, b"ping");
                        let rest = if n < wrong { b"ng!" } else { other };
                        let _ = stream.write_all(b"po").and_then(|()| stream.write_all(rest));
                    }
                });
            }
        });
        address
    }

    #[test]
    fn each_connection_has_one_request_in_flight() {
        let address = server(usize::MAX, usize::MAX, b"...");
        let mut exchange = Exchange::connect(address, Some(PING), PING, None, 3).unwrap();
        assert_eq!(exchange.reply_bytes, 5);
        let answered = exchange.run(|answered| answered >= 20).unwrap();
        assert!((20..=26).contains(&answered), "{answered}");
        // The connections are idle, and can be used again.
        assert_eq!(exchange.run(|_| true).unwrap(), 3);
    }

    #[test]
    fn connections_are_replaced_before_the_server_closes_them() {
        let address = server(4, usize::MAX, b"...");
        let run = |most| {
            let mut exchange = Exchange::connect(address, None, PING, most, 3)?;
            exchange.run(|answered| answered >= 100)
        };
        assert!(run(Some(4)).is_ok_and(|answered| answered >= 100));
        assert!(run(None).is_err());
    }

    #[test]
    fn a_signal_does_not_end_the_first_request() {
        let received = std::sync::Arc::default();
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, received).unwrap();
        let address = server(2, 2, b"...");
        let (tell, told) = std::sync::mpsc::channel();
        let client = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            ask(&mut std::net::TcpStream::connect(address).unwrap(), PING)
        });
        // The kernel prefers the thread of this number.
        let thread = told.recv().unwrap();
        for _ in 0..5 {
            std::thread::sleep(REPLY_END / 10);
            let _ = rustix::process::kill_process(thread, rustix::process::Signal::USR1);
        }
        assert_eq!(client.join().unwrap().unwrap(), 5);
    }

    #[test]
    fn a_reply_with_another_beginning_is_an_error() {
        // The length is that of the others.
        let wrong = Exchange::connect(server(9, 0, b"..."), None, PING, None, 1);
        assert!(wrong.is_err());
        let mut exchange = Exchange::connect(server(9, 2, b"..."), None, PING, None, 1).unwrap();
        let error = exchange.run(|answered| answered >= 5).unwrap_err().to_string();
        assert!(error.contains("pong"), "{error}");
        assert!(ask_once(server(9, 0, b"..."), PING).is_err());
    }
}
