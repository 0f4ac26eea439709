//! Writing the head of a response (RFC 9112, 4 and 6).

use crate::entity::line;
use crate::{DateLine, Method, Request, Status};

/// The interim response for [`Request::expect_continue`]: send it before reading the body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Properties of a request that determine the form of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Minor version of the request.
    pub minor: u8,
    /// Whether the connection persists.
    pub keep_alive: bool,
    /// Whether the request was HEAD: the same head without content (RFC 9110, 9.3.2).
    pub head_only: bool,
}

impl Reply {
    /// The form for this request.
    pub fn to(request: &Request<'_>) -> Reply {
        Reply {
            minor: request.minor,
            keep_alive: request.keep_alive,
            head_only: request.method == Method::Head,
        }
    }

    /// For the last response on a connection: after a [`Reject`](crate::Reject), or when shedding load.
    pub const CLOSE: Reply = Reply { minor: 1, keep_alive: false, head_only: false };

    /// For the last response on a connection whose request was rejected before its head was parsed; `bytes`
    /// is its beginning. A response to HEAD has no content, even if the request is invalid (RFC 9110, 9.3.2).
    ///
    /// ```
    /// use phalanx_http::Reply;
    ///
    /// assert!(Reply::to_refused(b"HEAD / HTTP/1.1\r\nX : y\r\n").head_only);
    /// assert!(!Reply::to_refused(b"HEADS / HTTP/1.1\r\n").head_only);
    /// assert_eq!(Reply::to_refused(b"GET"), Reply::CLOSE);
    /// ```
    pub fn to_refused(bytes: &[u8]) -> Reply {
        let line = bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(bytes.len());
        Reply { head_only: bytes[line..].starts_with(b"HEAD "), ..Reply::CLOSE }
    }

    /// The same form, for the last response on the connection.
    #[must_use]
    pub fn closing(self) -> Reply {
        Reply { keep_alive: false, ..self }
    }
}

/// Writer of a response head. Does not allocate if the buffer has capacity; about 300 bytes suffice.
///
/// ```
/// use phalanx_http::{DateLine, Head, Reply, Status};
///
/// let date = DateLine::new(784_111_777);
/// let mut out = Vec::with_capacity(512);
/// Head::new(&mut out, Status::Ok, &date, Reply::CLOSE)
///     .block(b"Content-Type: text/plain\r\nContent-Length: 2\r\n")
///     .finish();
/// assert_eq!(
///     out,
///     b"HTTP/1.1 200 OK\r\n\
///       Server: phalanx\r\n\
///       Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
///       Connection: close\r\n\
///       Content-Type: text/plain\r\n\
///       Content-Length: 2\r\n\r\n"
/// );
/// ```
#[derive(Debug)]
#[must_use = "the head is complete only after `finish`"]
pub struct Head<'a> {
    out: &'a mut Vec<u8>,
    status: Status,
}

impl<'a> Head<'a> {
    /// Writes the status line, `Server`, `Date`, and `Connection` if it differs from the default of the
    /// version (RFC 9112, 9.3). The version is always 1.1, even for a 1.0 client (RFC 9110, 6.2).
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, status: Status, date: &DateLine, reply: Reply) -> Head<'a> {
        out.extend_from_slice(status.line().as_bytes());
        out.extend_from_slice(date.lines());
        if !reply.keep_alive {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if reply.minor == 0 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        Head { out, status }
    }

    /// Appends complete lines unchanged, for example those of an [`Entity`](crate::Entity).
    #[inline]
    pub fn block(self, lines: &[u8]) -> Head<'a> {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
        self.out.extend_from_slice(lines);
        self
    }

    /// Appends one field. Line breaks and NULs in the value are replaced by spaces.
    pub fn field(self, name: &str, value: &[u8]) -> Head<'a> {
        line(self.out, name, value);
        self
    }

    /// Appends `Content-Length`, unless the status has no content (RFC 9110, 8.6).
    pub fn length(mut self, length: u64) -> Head<'a> {
        if self.status.has_content() {
            self.out.extend_from_slice(b"Content-Length: ");
            self.number(length);
            self.out.extend_from_slice(b"\r\n");
        }
        self
    }

    /// Appends `Content-Range` and `Content-Length` for the bytes from `start` to `end` of `length` (RFC
    /// 9110, 14.4), as in [`Ranged::Partial`](crate::Ranged::Partial): `start < end <= length`.
    pub fn part(mut self, start: u64, end: u64, length: u64) -> Head<'a> {
        debug_assert!(start < end && end <= length);
        self.out.extend_from_slice(b"Content-Range: bytes ");
        self.number(start);
        self.out.push(b'-');
        self.number(end.saturating_sub(1));
        self.out.push(b'/');
        self.number(length);
        self.out.extend_from_slice(b"\r\n");
        self.length(end.saturating_sub(start))
    }

    /// Appends the empty line that ends the head.
    #[inline]
    pub fn finish(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, number: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}
