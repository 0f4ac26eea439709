//! Search for the end of a head within the limits. No byte is scanned twice.

use crate::limits::{Limits, MAX_FIELDS};
use crate::reject::Reject;
use crate::request::head::Request;
use crate::request::line::Line;
use crate::status::Status;
use crate::syntax::bytes::is_token;

/// Empty lines skipped before a request line (RFC 9112, 2.2 recommends at least one).
const LEADING_LINES: u16 = 2;

/// Result of parsing a request head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation per request")]
pub enum Parse<'a> {
    /// More bytes are needed.
    Incomplete,
    /// A complete head and its length, including skipped empty lines.
    Complete(Request<'a>, usize),
}

/// Parses a request head at the start of `bytes`.
///
/// Stateless: each call starts at the beginning. For input that arrives in pieces, keep a [`Scan`] with the
/// buffer, so that a client that sends single bytes causes no extra cost.
///
/// # Errors
///
/// A [`Reject`] as soon as no further byte could make the request acceptable: at the first byte for an
/// invalid method, at the end of its line for an invalid request line or a bare LF, at the limit for
/// excessive length, and at the end of the head for everything else. It contains the status of the response,
/// after which the connection must be closed.
///
/// ```
/// use phalanx_http::{Limits, Method, Parse, parse};
///
/// let limits = Limits::default();
/// let bytes = b"GET /a?b=c HTTP/1.1\r\nHost: example.com\r\n\r\n";
/// match parse(bytes, &limits) {
///     Ok(Parse::Complete(request, length)) => {
///         assert_eq!(request.method, Method::Get);
///         assert_eq!((request.path, request.query), ("/a", Some("b=c")));
///         assert_eq!(request.host, Some("example.com"));
///         assert!(request.keep_alive);
///         assert_eq!(length, bytes.len());
///     }
///     other => panic!("{other:?}"),
/// }
/// assert_eq!(parse(&bytes[..30], &limits), Ok(Parse::Incomplete));
/// assert_eq!(parse(b"GET / HTTP/2.0\r\n", &limits).unwrap_err().status.code(), 505);
/// ```
pub fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Parse<'a>, Reject> {
    Scan::default().parse(bytes, limits)
}

/// Progress of parsing an incomplete head; one per connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scan {
    /// There is no unseen line end before this offset.
    searched: usize,
    /// Start of the request line, after skipped empty lines of two bytes each.
    start: u16,
    /// Start of the current line.
    line: usize,
    /// Start of the field lines, once the request line is complete.
    fields: usize,
    /// Complete lines so far, without skipped ones; at most [`MAX_FIELDS`] and one more.
    lines: u16,
    /// Empty lines skipped.
    skipped: u16,
    /// Whether the request line was already validated.
    checked: bool,
}

impl Scan {
    /// Like [`parse()`](fn@parse), but continues after the previous call. `bytes` must start with the bytes
    /// of that call. After a complete request or an error it is ready for the next request; to abandon a
    /// request, create a new one.
    ///
    /// # Errors
    ///
    /// Like [`parse()`](fn@parse).
    pub fn parse<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Parse<'a>, Reject> {
        // Take the state out, so that every return except the incomplete one resets it.
        let mut scan = std::mem::take(self);
        if let Some(end) = scan.find_end(bytes, limits)? {
            let line = &bytes[usize::from(scan.start)..scan.fields - 2];
            let request =
                Request::read(line, &bytes[scan.fields..end], usize::from(scan.lines) - 1)?;
            return Ok(Parse::Complete(request, end));
        }
        scan.check_early(bytes)?;
        *self = scan;
        Ok(Parse::Incomplete)
    }

    /// Returns the offset after the empty line that ends the head, if it was received.
    fn find_end(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Reject> {
        // Fewer bytes than before: not the same request. Start again instead of panicking.
        if self.searched > bytes.len() {
            *self = Scan::default();
        }
        let from = self.searched;
        for at in memchr::memchr_iter(b'\n', &bytes[from..]) {
            let at = from + at;
            if at == 0 || bytes[at - 1] != b'\r' {
                // Recipients may accept a lone LF as a line end (RFC 9112, 2.2). Attackers exploit the
                // difference between those that do and those that do not.
                return Err(Reject::bad("line ends in a bare LF"));
            }
            if at - 1 > self.line {
                self.whole_line(at - 1 - self.line, at + 1, limits)?;
            } else if self.lines > 0 {
                return match at + 1 - usize::from(self.start) > limits.head {
                    true => Err(HEAD_TOO_LARGE),
                    false => Ok(Some(at + 1)),
                };
            } else {
                self.skipped += 1;
                self.start = (at + 1) as u16;
                if self.skipped > LEADING_LINES {
                    return Err(Reject::bad("empty lines before the request"));
                }
            }
            self.line = at + 1;
        }
        self.searched = bytes.len();
        let held = bytes.len() - usize::from(self.start);
        // The last byte may be the CR of the line end.
        if self.lines == 0 && held > limits.request_line + 1 {
            return Err(LINE_TOO_LONG);
        }
        if held > limits.head { Err(HEAD_TOO_LARGE) } else { Ok(None) }
    }

    fn whole_line(&mut self, length: usize, end: usize, limits: &Limits) -> Result<(), Reject> {
        self.lines += 1;
        if self.lines == 1 {
            self.fields = end;
            if length > limits.request_line {
                return Err(LINE_TOO_LONG);
            }
        } else if usize::from(self.lines) - 1 > limits.headers.min(MAX_FIELDS) {
            return Err(Reject::new(Status::FieldsTooLarge, "too many field lines"));
        }
        Ok(())
    }

    /// Rejects input early that would otherwise wait for a timeout: a TLS handshake, an HTTP/0.9 request, or
    /// another protocol's preface.
    fn check_early(&mut self, bytes: &[u8]) -> Result<(), Reject> {
        if self.lines == 0 {
            let first = bytes.get(usize::from(self.start)).copied();
            return match first.is_none_or(|byte| is_token(byte) || byte == b'\r') {
                true => Ok(()),
                false => Err(Reject::bad("invalid method")),
            };
        }
        if !self.checked {
            Line::parse(&bytes[usize::from(self.start)..self.fields - 2])?;
            self.checked = true;
        }
        Ok(())
    }
}

const LINE_TOO_LONG: Reject = Reject::new(Status::UriTooLong, "request line too long");
const HEAD_TOO_LARGE: Reject = Reject::new(Status::FieldsTooLarge, "head too large");
