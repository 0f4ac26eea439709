//! An HTTP/1.1 client at the level of bytes: literal requests, and strictly parsed responses.

use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::clients::tcp;

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names and values of the field lines, in order.
    pub fields: Vec<(String, String)>,
    /// The content, without its framing.
    pub body: Vec<u8>,
}

impl Response {
    /// The values of all lines of a field.
    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let field = self.fields.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.as_str()).collect::<Vec<_>>().into_iter()
    }

    /// The value of the first line of a field.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    /// The value of the only line of a field.
    ///
    /// # Panics
    /// If there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.values(name);
        let (value, second) = (values.next(), values.next());
        assert!(second.is_none(), "{name} comes twice: {self:?}");
        value
    }

    /// Whether the response announces the end of the connection.
    pub fn has_connection_close(&self) -> bool {
        let options = self.values("Connection").flat_map(|value| value.split(','));
        options.into_iter().any(|option| option.trim().eq_ignore_ascii_case("close"))
    }

    /// All fields except the date, for comparing two responses.
    pub fn fields_except_date(&self) -> Vec<(String, String)> {
        self.fields.iter().filter(|(name, _)| name != "Date").cloned().collect()
    }

    /// Whether a body follows the head of a response to a GET (RFC 9112, 6.3).
    fn has_body(&self) -> bool {
        self.status >= 200 && ![204, 304].contains(&self.status)
    }
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was closed in order.
    Closed,
    /// It was reset.
    Reset,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    /// The socket.
    pub stream: TcpStream,
    /// Received bytes: all since the last response that a method without `try` has returned.
    received: Vec<u8>,
    /// Number of parsed bytes.
    read: usize,
}

/// Methods that panic: the server must respond, in the style of Phalanx's servers.
impl Client {
    /// Connects; reads and writes fail after [`TIMEOUT`](crate::TIMEOUT).
    pub fn connect(address: SocketAddr) -> Self {
        Self::from_stream(tcp::connect(address))
    }

    /// A client on an established connection.
    pub fn from_stream(stream: TcpStream) -> Self {
        Self { stream: tcp::with_timeouts(stream), received: Vec::new(), read: 0 }
    }

    /// Sends these bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes the request");
    }

    /// Requests a path with additional field lines, each ending in CR LF.
    pub fn get_with(&mut self, path: &str, lines: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
        self.response()
    }

    /// Requests a path.
    pub fn get(&mut self, path: &str) -> Response {
        self.get_with(path, "")
    }

    /// Requests the head of a path with additional field lines, each ending in CR LF.
    pub fn head_with(&mut self, path: &str, lines: &str) -> Response {
        self.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
        self.response_head()
    }

    /// Reads a response with its body, whose length the head must state.
    pub fn response(&mut self) -> Response {
        let mut response = self.response_head();
        if response.has_body() {
            let framing = ["Content-Length", "Transfer-Encoding"];
            assert!(framing.iter().any(|name| response.field(name).is_some()), "{response:?}");
            response.body = self.try_body(&response).unwrap();
        }
        response
    }

    /// Reads a response without a body, as to a HEAD.
    pub fn response_head(&mut self) -> Response {
        // Parsed bytes are not kept: a client may receive many large files.
        self.received.drain(..std::mem::take(&mut self.read));
        let response = self.try_head().unwrap();
        check_style(&self.received[..self.read - 4], &response);
        response
    }

    /// Reads to the end of the connection: the unparsed bytes, and how it ended.
    pub fn read_to_end(&mut self) -> (Vec<u8>, End) {
        let end = loop {
            match self.read_more() {
                Ok(0) => break End::Closed,
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
                Err(error) => panic!("the connection is neither closed nor reset: {error}"),
            }
        };
        let rest = self.rest().to_vec();
        self.read = self.received.len();
        (rest, end)
    }

    /// The connection closes without further bytes.
    #[track_caller]
    pub fn expect_close(&mut self) {
        self.try_close().unwrap();
    }

    /// One read: the number of bytes added.
    ///
    /// # Errors
    /// Those of the read.
    pub fn read_more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 64 * 1024];
        let count = tcp::read(&mut self.stream, &mut piece)?;
        self.received.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    /// Number of received and unparsed bytes.
    pub fn buffered(&self) -> usize {
        self.rest().len()
    }
}

/// Methods that return a description of an error, for servers of any kind.
impl Client {
    /// Connects; later reads and writes fail after `limit`.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn try_connect(address: SocketAddr, limit: Duration) -> Result<Self, String> {
        let stream =
            TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
        let client = Self::from_stream(stream);
        client.stream.set_read_timeout(Some(limit)).map_err(|error| error.to_string())?;
        client.stream.set_write_timeout(Some(limit)).map_err(|error| error.to_string())?;
        Ok(client)
    }

    /// Sends. Errors are ignored, since a close by the server shows when reading.
    pub fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Shuts down the sending direction.
    pub fn shut(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads a response; `headless` for one to a HEAD, whose fields describe a body that is not sent.
    ///
    /// # Errors
    /// If it violates RFC 9112, or the connection ends or times out within it.
    pub fn try_response(&mut self, headless: bool) -> Result<Response, String> {
        let mut response = self.try_head()?;
        if !headless && response.has_body() {
            response.body = self.try_body(&response)?;
        }
        Ok(response)
    }

    /// The connection closes in order, without further bytes.
    ///
    /// # Errors
    /// If bytes arrive, or the connection is reset or stays open.
    pub fn try_close(&mut self) -> Result<(), String> {
        while self.rest().is_empty() {
            if self.try_more()? == 0 {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(self.rest());
        Err(format!("more came than was asked for: {text:?}"))
    }

    /// All received bytes, for reports of clients that use only these methods.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    fn rest(&self) -> &[u8] {
        &self.received[self.read..]
    }

    fn try_more(&mut self) -> Result<usize, String> {
        self.read_more().map_err(|error| match error.kind() {
            ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                "nothing came, and the connection was not closed".to_owned()
            }
            _ => format!("the connection failed: {error}"),
        })
    }

    fn try_head(&mut self) -> Result<Response, String> {
        let end = loop {
            if let Some(at) = find(self.rest(), b"\r\n\r\n") {
                break at;
            }
            if self.try_more()? == 0 {
                return Err(match self.rest() {
                    [] => "it was closed without an answer".to_owned(),
                    rest => {
                        let rest = String::from_utf8_lossy(rest);
                        format!("it was closed within an answer's head: {rest:?}")
                    }
                });
            }
        };
        let response = parse_head(&self.rest()[..end])?;
        self.read += end + 4;
        Ok(response)
    }

    fn try_body(&mut self, response: &Response) -> Result<Vec<u8>, String> {
        if response.values("Transfer-Encoding").any(|value| value.eq_ignore_ascii_case("chunked")) {
            return self.chunks();
        }
        let Some(length) = response.first("Content-Length") else {
            // Up to the close (RFC 9112, 6.3).
            while self.try_more()? > 0 {}
            return Ok(self.take(self.rest().len()));
        };
        let length = length.parse().map_err(|_| format!("Content-Length is {length:?}"))?;
        self.fill_buffer(length)?;
        Ok(self.take(length))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find(self.rest(), b"\r\n") {
                    break self.take(at + 2);
                }
                self.fill_buffer(self.rest().len() + 1)?;
            };
            let size = String::from_utf8_lossy(&line);
            let size = size.trim_end().split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| format!("a chunk's size line is {line:?}"))?;
            self.fill_buffer(size + 2)?;
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

    fn fill_buffer(&mut self, count: usize) -> Result<(), String> {
        while self.rest().len() < count {
            if self.try_more()? == 0 {
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
}

/// One GET on a separate connection.
pub fn get(address: SocketAddr, path: &str) -> Response {
    Client::connect(address).get(path)
}

/// The position of `needle` in `bytes`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Parses a status line and field lines (RFC 9112, 4 and 5).
fn parse_head(head: &[u8]) -> Result<Response, String> {
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
    Ok(Response { status, fields, body: Vec::new() })
}

/// Checks the style of Phalanx's heads, and the fields that every response must have.
fn check_style(head: &[u8], response: &Response) {
    let head = std::str::from_utf8(head).expect("a head in ASCII");
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    assert!(status.starts_with("HTTP/1.1 ") && status.len() > 13, "a reason: {status:?}");
    for line in lines {
        let (_, value) = line.split_once(": ").expect("a field line");
        assert!(!value.is_empty() && value.trim() == value, "{line:?}");
    }
    // The admin pages lack it.
    if response.status >= 200 && response.field("Server").is_some() {
        let date = response.field("Date").expect("a date");
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{date:?}");
        assert!(response.field("Transfer-Encoding").is_none(), "all lengths are known");
    }
}
