//! The part of HTTP/1.1 that browsers and scrapers need: sequential requests, with short bodies of known length.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use phalanx_driver::Payload;

use crate::io::IoTimeout;
use crate::net::Stream;
use crate::time::now;

/// Largest request in bytes.
const MAX_REQUEST: usize = 8 * 1024;
/// Largest body of a request in bytes.
const MAX_BODY: usize = 1 << 20;
/// Time limit for an idle connection, for each request from its first byte, and for each piece of a response.
const IO_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(10));
/// The number of bytes of a response that are sent at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    /// The method by name.
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) query: String,
    /// The value of `Host`. An HTTP/1.0 request may have none.
    pub(super) host: Option<String>,
    /// The value of `Origin`, which identifies the page whose script sent a cross-origin request.
    pub(super) origin: Option<String>,
    /// The value of `Authorization`.
    pub(super) authorization: Option<String>,
    pub(super) body: Vec<u8>,
    /// The length of the body.
    body_bytes: usize,
    /// Whether the connection stays open after the response.
    keep_alive: bool,
    /// Whether the client accepts chunked encoding.
    chunks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Other,
}

/// Result of parsing.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Complete(usize, Request),
    Partial,
    Invalid,
}

impl Request {
    /// The value of a query parameter; empty if it has none.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| match pair.split_once('=') {
            Some((key, value)) => (key == name).then_some(value),
            None => (pair == name).then_some(""),
        })
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Invalid,
    };
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let has_value = |name: &str, value: &str| {
        let named = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let mut values = named.filter_map(|field| std::str::from_utf8(field.value).ok());
        values.any(|v| v.split(',').any(|v| v.trim().eq_ignore_ascii_case(value)))
    };
    let is_chunked =
        request.headers.iter().any(|field| field.name.eq_ignore_ascii_case("transfer-encoding"));
    let Ok(body_bytes) = only(&request, "content-length").and_then(|length| match length {
        // `parse` would accept a sign.
        Some(length) if !length.bytes().all(|byte| byte.is_ascii_digit()) => Err(()),
        Some(length) => length.parse().map_err(|_| ()),
        None => Ok(0),
    }) else {
        return Parsed::Invalid;
    };
    let new = request.version == Some(1);
    let (Ok(host), Ok(origin), Ok(authorization)) =
        (only(&request, "host"), only(&request, "origin"), only(&request, "authorization"))
    else {
        return Parsed::Invalid;
    };
    // RFC 9112 §3.2.
    if new && host.is_none() {
        return Parsed::Invalid;
    }
    let keep_alive =
        if new { !has_value("connection", "close") } else { has_value("connection", "keep-alive") };
    let (path, query) = request
        .path
        .unwrap_or_default()
        .split_once('?')
        .unwrap_or_else(|| (request.path.unwrap_or_default(), ""));
    let request = Request {
        method,
        verb: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        host,
        origin,
        authorization,
        body: Vec::new(),
        body_bytes,
        // After a body of unknown length, the connection must close, because the body would be parsed as the next
        // request.
        keep_alive: keep_alive && !is_chunked,
        chunks: new,
    };
    Parsed::Complete(length, request)
}

/// The value of a header field, if present.
///
/// # Errors
/// If it occurs several times, or is not UTF-8.
fn only(request: &httparse::Request<'_, '_>, name: &str) -> Result<Option<String>, ()> {
    let mut fields = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    match (fields.next(), fields.next()) {
        (None, _) => Ok(None),
        (Some(field), None) => match std::str::from_utf8(field.value) {
            Ok(value) => Ok(Some(value.trim().to_owned())),
            Err(_) => Err(()),
        },
        (Some(_), Some(_)) => Err(()),
    }
}

/// A complete response.
pub(super) struct Answer {
    pub(super) status: &'static str,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
    /// Further header fields, each with its line end.
    pub(super) fields: &'static str,
}

impl Answer {
    pub(super) fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: "200 OK", kind, body: body.into(), fields: "" }
    }

    /// A response of one line of text.
    pub(super) fn text(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into(), fields: "" }
    }
}

/// A client's connection.
pub(super) struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
    /// Whether the current request is a HEAD request.
    head_only: bool,
    chunks: bool,
    keep_alive: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, buffer: Vec::new(), head_only: false, chunks: false, keep_alive: true }
    }

    /// Waits for the next request. Returns `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> io::Result<Option<Request>> {
        let mut start = (!self.buffer.is_empty()).then(now);
        while self.keep_alive {
            match parse(&self.buffer) {
                Parsed::Complete(length, mut request) => {
                    self.buffer.drain(..length);
                    self.keep_alive = request.keep_alive;
                    self.chunks = request.chunks;
                    self.head_only = request.method == Method::Head;
                    if request.body_bytes > MAX_BODY {
                        return self.reject("413 Content Too Large").await;
                    }
                    while self.buffer.len() < request.body_bytes {
                        if self.stream.read(&mut self.buffer, rest(start)).await? == 0 {
                            return Ok(None);
                        }
                    }
                    request.body = self.buffer.drain(..request.body_bytes).collect();
                    return Ok(Some(request));
                }
                Parsed::Invalid => return self.reject("400 Bad Request").await,
                Parsed::Partial if self.buffer.len() > MAX_REQUEST => {
                    return self.reject("431 Request Header Fields Too Large").await;
                }
                Parsed::Partial => (),
            }
            if self.stream.read(&mut self.buffer, rest(start)).await? == 0 {
                break;
            }
            start.get_or_insert_with(now);
        }
        Ok(None)
    }

    async fn reject(&mut self, status: &'static str) -> io::Result<Option<Request>> {
        self.keep_alive = false;
        self.answer(Answer::text(status, format!("{status}\n"))).await?;
        Ok(None)
    }

    fn head(&mut self, status: &str, kind: &str, fields: &str, framing: &str) -> Vec<u8> {
        // During a drain, each connection closes after its current response.
        self.keep_alive &= !crate::shutdown::is_draining();
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{framing}{fields}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: {connection}\r\n\r\n"
        )
        .into_bytes()
    }

    /// Sends a response of known length.
    pub(super) async fn answer(&mut self, answer: Answer) -> io::Result<()> {
        let length = format!("Content-Length: {}\r\n", answer.body.len());
        let mut head = self.head(answer.status, answer.kind, answer.fields, &length);
        let mut body = if self.head_only { Bytes::new() } else { Bytes::from(answer.body) };
        loop {
            let piece = body.split_to(body.len().min(PIECE_BYTES));
            head = self.stream.write(Payload { head, body: piece }, IO_TIMEOUT).await?;
            if body.is_empty() {
                return Ok(());
            }
        }
    }

    /// Starts a response of unknown length. Returns false for a HEAD request.
    pub(super) async fn begin(&mut self, kind: &str, fields: &str) -> io::Result<bool> {
        self.keep_alive &= self.chunks;
        let framing = if self.chunks { "Transfer-Encoding: chunked\r\n" } else { "" };
        let head = self.head("200 OK", kind, fields, framing);
        self.send(head, Bytes::new()).await?;
        Ok(!self.head_only)
    }

    /// Sends a piece of the response.
    pub(super) async fn piece(&mut self, piece: String) -> io::Result<()> {
        match (piece.is_empty(), self.chunks) {
            (true, _) => Ok(()),
            (_, false) => self.send(piece.into_bytes(), Bytes::new()).await,
            (_, true) => {
                let head = format!("{:x}\r\n", piece.len()).into_bytes();
                let body = Bytes::from(piece + "\r\n");
                self.send(head, body).await
            }
        }
    }

    /// Ends the response.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        if self.chunks { self.send(b"0\r\n\r\n".to_vec(), Bytes::new()).await } else { Ok(()) }
    }

    async fn send(&mut self, head: Vec<u8>, body: Bytes) -> io::Result<()> {
        self.stream.write(Payload { head, body }, IO_TIMEOUT).await.map(|_| ())
    }
}

/// The time left for a request that began at this time.
fn rest(start: Option<Duration>) -> IoTimeout {
    let elapsed = start.map_or(Duration::ZERO, |start| now().saturating_sub(start));
    IO_TIMEOUT.remaining(elapsed).until_shutdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Complete(length, request) if length == text.len() => request,
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn a_path_and_its_parameters() {
        let request = request("HEAD /trace.json?seconds=2.5&x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((request.method, request.path.as_str()), (Method::Head, "/trace.json"));
        assert_eq!(request.parameter("seconds"), Some("2.5"));
        assert_eq!((request.parameter("x"), request.parameter("y")), (Some(""), None));
    }

    #[test]
    fn a_host_and_an_origin() {
        let without_host = request("GET / HTTP/1.0\r\n\r\n");
        assert_eq!((without_host.host, without_host.origin), (None, None));
        let page = request("GET / HTTP/1.1\r\nhost: A:1 \r\nOrigin: http://b\r\n\r\n");
        assert_eq!((page.host.as_deref(), page.origin.as_deref()), (Some("A:1"), Some("http://b")));
    }

    #[test]
    fn the_server_closes_connections_on_request() {
        for (head, keep_alive) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: a\r\nconnection: te, close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", true),
            // The body would be parsed as a request.
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", true),
        ] {
            assert_eq!(request(head).keep_alive, keep_alive, "{head:?}");
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        assert_eq!(parse(b"GET / HT"), Parsed::Partial);
        assert_eq!(parse(b"GET / FTP/1.1\r\n\r\n"), Parsed::Invalid);
        assert_eq!(parse(b"\0\r\n\r\n"), Parsed::Invalid);
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Parsed::Invalid, "no host");
        for length in ["+1", "-1", "", "1, 1", "99999999999999999999999"] {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()), Parsed::Invalid, "{length}");
        }
        for two in
            ["Host: a\r\nHost: a", "Host: a\r\nOrigin: a\r\norigin: b", "Host: \u{e9}\r\nhost: a"]
        {
            assert_eq!(
                parse(format!("GET / HTTP/1.1\r\n{two}\r\n\r\n").as_bytes()),
                Parsed::Invalid,
                "{two}"
            );
        }
    }
}
