//! A connection at the level of bytes; responses are parsed strictly.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A response as received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// The values of all lines of a field.
    pub(crate) fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let name = name.to_owned();
        self.fields
            .iter()
            .filter(move |(own, _)| own.eq_ignore_ascii_case(&name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    pub(crate) fn says_close(&self) -> bool {
        self.values("Connection")
            .flat_map(|value| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case("close"))
    }
}

/// A connection and all bytes received on it.
pub(crate) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
    /// Number of parsed bytes.
    read: usize,
}

/// Result of a read.
enum More {
    Bytes,
    Closed,
}

impl Wire {
    /// Connects; every later read has a timeout.
    pub(crate) fn connect(address: SocketAddr, limit: Duration) -> Result<Self, String> {
        let stream =
            TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_read_timeout(Some(limit)).map_err(|error| error.to_string())?;
        stream.set_write_timeout(Some(limit)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self { stream, received: Vec::new(), read: 0 })
    }

    /// Sends. Errors are ignored, since a close by the server shows when reading.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Shuts down the sending direction.
    pub(crate) fn shut(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn more(&mut self) -> Result<More, String> {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => Ok(More::Closed),
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                Ok(More::Bytes)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                Err("the connection was reset".to_owned())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err("nothing came, and the connection was not closed".to_owned())
            }
            Err(error) => Err(format!("the connection failed: {error}")),
        }
    }

    fn rest(&self) -> &[u8] {
        &self.received[self.read..]
    }

    /// Reads a response; `headless` for one to a HEAD, whose fields describe a body that is not sent.
    pub(crate) fn answer(&mut self, headless: bool) -> Result<Received, String> {
        let end = loop {
            if let Some(at) = find(self.rest(), b"\r\n\r\n") {
                break at;
            }
            if let More::Closed = self.more()? {
                return Err(match self.rest().is_empty() {
                    true => "it was closed without an answer".to_owned(),
                    false => "it was closed within an answer's head".to_owned(),
                });
            }
        };
        let mut received = parse_head(&self.rest()[..end])?;
        self.read += end + 4;
        if !headless && received.status >= 200 && ![204, 304].contains(&received.status) {
            received.body = self.body(&received)?;
        }
        Ok(received)
    }

    fn body(&mut self, answer: &Received) -> Result<Vec<u8>, String> {
        if answer.values("Transfer-Encoding").any(|coding| coding.eq_ignore_ascii_case("chunked")) {
            return self.chunks();
        }
        let Some(length) = answer.field("Content-Length") else {
            // Up to the close (RFC 9112, 6.3).
            while let More::Bytes = self.more()? {}
            return Ok(self.take(self.rest().len()));
        };
        let length = length.parse().map_err(|_| format!("Content-Length is {length:?}"))?;
        self.need(length)?;
        Ok(self.take(length))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find(self.rest(), b"\r\n") {
                    break self.take(at + 2);
                }
                self.need(self.rest().len() + 1)?;
            };
            let size = String::from_utf8_lossy(&line);
            let size = size.trim_end().split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| format!("a chunk's size line is {line:?}"))?;
            self.need(size + 2)?;
            body.extend(self.take(size));
            let end = self.take(2);
            if end != b"\r\n" {
                return Err(format!("a chunk or the trailers end in {end:?}"));
            }
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn need(&mut self, count: usize) -> Result<(), String> {
        while self.rest().len() < count {
            if let More::Closed = self.more()? {
                return Err(format!("closed after {} of {count} body bytes", self.rest().len()));
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.rest()[..count].to_vec();
        self.read += count;
        taken
    }

    /// The connection closes in order, without further bytes.
    pub(crate) fn closes(&mut self) -> Result<(), String> {
        while self.rest().is_empty() {
            if let More::Closed = self.more()? {
                return Ok(());
            }
        }
        Err(format!("more came than was asked for: {}", show(self.rest())))
    }

    /// All received bytes, for reports.
    pub(crate) fn received(&self) -> &[u8] {
        &self.received
    }
}

/// Parses a status line and field lines (RFC 9112, 4 and 5).
fn parse_head(head: &[u8]) -> Result<Received, String> {
    let head = std::str::from_utf8(head).map_err(|_| "a head that is no UTF-8".to_owned())?;
    if let Some(at) = head.find(|c: char| c.is_control() && !['\r', '\n', '\t'].contains(&c)) {
        return Err(format!("a control character in the head, at {at}"));
    }
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let fault = || format!("the status line is {line:?} (RFC 9112, 4)");
    let rest = line.strip_prefix("HTTP/1.1 ").or(line.strip_prefix("HTTP/1.0 "));
    let (code, _) = rest.and_then(|rest| rest.split_once(' ')).ok_or_else(fault)?;
    let digits = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    let status: u16 = if digits { code.parse().map_err(|_| fault())? } else { 0 };
    if !(100..600).contains(&status) {
        return Err(fault());
    }
    let mut fields = Vec::new();
    for line in lines {
        let fault = || format!("the field line is {line:?} (RFC 9112, 5)");
        let (name, value) = line.split_once(':').ok_or_else(fault)?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || line.contains(['\r', '\n']) {
            return Err(fault());
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(Received { status, fields, body: Vec::new() })
}

pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Bytes in the syntax of a Rust string, abbreviated if they are long.
pub(crate) fn show(bytes: &[u8]) -> String {
    const MAX_SHOWN: usize = 1200;
    let mut text = bytes[..bytes.len().min(MAX_SHOWN)].escape_ascii().to_string();
    text = text.replace("\\\'", "'").replace("\\\"", "\"").replace("\\n", "\\n\n      ");
    if bytes.len() > MAX_SHOWN {
        let _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}
