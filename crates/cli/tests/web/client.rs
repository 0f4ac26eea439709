//! A client at the level of bytes: literal requests, and strictly parsed responses.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::server::TIMEOUT;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// A field's value; fails if there are several.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        let (value, again) = (found.next(), found.next());
        assert!(again.is_none(), "{name} comes twice: {self:?}");
        value.map(|(_, value)| value.as_str())
    }

    pub(crate) fn says_close(&self) -> bool {
        self.field("Connection") == Some("close")
    }

    /// All fields except the date, for comparing two responses.
    pub(crate) fn lasting_fields(&self) -> Vec<(String, String)> {
        self.fields.iter().filter(|(name, _)| name != "Date").cloned().collect()
    }
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was closed in order.
    Closed,
    /// It was reset.
    Reset,
}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// Received and unparsed bytes.
    rest: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).expect("the server accepts connections"))
    }

    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, rest: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes the request");
    }

    /// Requests a path with additional field lines, each ending in CR LF.
    pub(crate) fn get_with(&mut self, path: &str, lines: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
        self.response()
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.get_with(path, "")
    }

    pub(crate) fn head_with(&mut self, path: &str, lines: &str) -> Response {
        self.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
        self.response_head()
    }

    /// Reads a response with its body.
    pub(crate) fn response(&mut self) -> Response {
        let mut response = self.response_head();
        if response.field("Transfer-Encoding").is_some() {
            response.body = self.chunks();
        } else if response.status >= 200 && ![204, 304].contains(&response.status) {
            let length = response.field("Content-Length").expect("a length").parse().unwrap();
            while self.rest.len() < length {
                assert!(self.more().unwrap() > 0, "closed in a body");
            }
            response.body = self.rest.drain(..length).collect();
        }
        response
    }

    /// Reads a chunked body.
    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.rest.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                assert!(self.more().unwrap() > 0, "closed in a body");
            };
            let size = std::str::from_utf8(&self.rest[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).expect("a chunk's size");
            let chunk = end + 2..end + 2 + size;
            while self.rest.len() < chunk.end + 2 {
                assert!(self.more().unwrap() > 0, "closed in a chunk");
            }
            body.extend_from_slice(&self.rest[chunk.clone()]);
            assert_eq!(self.rest[chunk.end..chunk.end + 2], *b"\r\n");
            self.rest.drain(..chunk.end + 2);
            if size == 0 {
                return body;
            }
        }
    }

    /// Reads a response without a body, as to a HEAD.
    pub(crate) fn response_head(&mut self) -> Response {
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            let count = self.more().expect("a response");
            assert!(count > 0, "closed within a head: {:?}", String::from_utf8_lossy(&self.rest));
        };
        let head: Vec<u8> = self.rest.drain(..end + 4).collect();
        parse_head(std::str::from_utf8(&head[..end]).expect("a head in ASCII"))
    }

    /// Reads to the end of the connection: the bytes, and how it ended.
    pub(crate) fn read_to_end(&mut self) -> (Vec<u8>, End) {
        loop {
            match self.more() {
                Ok(0) => return (std::mem::take(&mut self.rest), End::Closed),
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.rest), End::Reset);
                }
                Err(error) => panic!("the connection is neither closed nor reset: {error}"),
            }
        }
    }

    /// The connection closes without further bytes.
    #[track_caller]
    pub(crate) fn closes(&mut self) {
        let (bytes, end) = self.read_to_end();
        assert!(bytes.is_empty(), "more than was asked for: {:?}", String::from_utf8_lossy(&bytes));
        assert_eq!(end, End::Closed);
    }

    /// One read: the number of bytes added.
    pub(crate) fn more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 64 * 1024];
        let count = self.stream.read(&mut piece)?;
        self.rest.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    /// Number of received and unparsed bytes.
    pub(crate) fn buffered(&self) -> usize {
        self.rest.len()
    }
}

/// One GET on a separate connection.
pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    Client::connect(address).get(path)
}

/// Parses a response's head and checks the fields that every response must have.
fn parse_head(head: &str) -> Response {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").expect("a status line");
    let (code, reason) = status.split_at(3);
    assert!(reason.starts_with(' ') && reason.len() > 1, "a reason: {status:?}");
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(": ").expect("a field line");
        assert!(!value.is_empty() && value.trim() == value, "{line:?}");
        assert!(!line.contains(['\r', '\n', '\0']), "{line:?}");
        (name.to_owned(), value.to_owned())
    });
    let response =
        Response { status: code.parse().unwrap(), fields: fields.collect(), body: Vec::new() };
    // The admin pages lack it.
    if response.status >= 200 && response.field("Server").is_some() {
        let date = response.field("Date").expect("a date");
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{date:?}");
        assert!(response.field("Transfer-Encoding").is_none(), "all lengths are known");
    }
    response
}
