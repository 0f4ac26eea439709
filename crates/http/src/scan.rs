//! Finding the end of a head without reading any byte twice, within the limits.

use crate::bytes::is_token;
use crate::line::Line;
use crate::{Limits, MAX_FIELDS, Reject, Request, Status};

/// Empty lines that are skipped before a request line (RFC 9112, 2.2 asks for at least one).
const LEADING_LINES: usize = 2;

/// The state of a request that is arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation per request")]
pub enum Parse<'a> {
    /// More bytes are needed.
    Incomplete,
    /// The head is here; the number says how many bytes it took, skipped empty lines included.
    Complete(Request<'a>, usize),
}

/// Parses a request head from the start of `bytes`.
///
/// Pure and without memory: it starts afresh at each call. Where a head may arrive in pieces, keep a
/// [`Scan`] beside the buffer, so that a client that sends single bytes costs no more than another.
///
/// # Errors
///
/// A [`Reject`] as soon as it is certain that no further byte could make the request acceptable: at the
/// first byte for what cannot be a method, at the end of its line for a bad request line or a bare LF,
/// at the limit for what is too long, and at the end of the head for everything else. It says with
/// which status to answer; the connection is closed after it.
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

/// How far a head that is still arriving has been looked at. One per connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scan {
    /// No line ends before this that were not seen.
    searched: usize,
    /// Where the request line begins, behind the skipped empty lines.
    start: usize,
    /// Where the current line begins.
    line: usize,
    /// Where the field lines begin, once the request line is whole.
    fields: usize,
    /// Whole lines so far, the skipped ones left out.
    lines: usize,
    /// Empty lines skipped.
    skipped: usize,
    /// Whether the request line was found good already.
    checked: bool,
}

impl Scan {
    /// Like [`parse()`](fn@parse), but goes on where the call before stopped. `bytes` must begin with the same bytes
    /// as in that call. After a whole request or an error it is ready for the next request; to give
    /// up a request half-way, start with a new one.
    ///
    /// # Errors
    ///
    /// As [`parse()`](fn@parse).
    pub fn parse<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Parse<'a>, Reject> {
        // Taken out, so that every way out but the incomplete one leaves a fresh scan behind.
        let mut scan = std::mem::take(self);
        if let Some(end) = scan.find_end(bytes, limits)? {
            let line = &bytes[scan.start..scan.fields - 2];
            let request = Request::read(line, &bytes[scan.fields..end], scan.lines - 1)?;
            return Ok(Parse::Complete(request, end));
        }
        scan.check_early(bytes)?;
        *self = scan;
        Ok(Parse::Incomplete)
    }

    /// The position behind the empty line that closes the head, if it is there.
    fn find_end(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Reject> {
        // Fewer bytes than before: not the same request. Better to begin again than to panic.
        if self.searched > bytes.len() {
            *self = Scan::default();
        }
        let from = self.searched;
        for at in memchr::memchr_iter(b'\n', &bytes[from..]) {
            let at = from + at;
            if at == 0 || bytes[at - 1] != b'\r' {
                // A reader may take a lone LF for a line end (RFC 9112, 2.2); readers that do and
                // readers that do not can be played off against each other.
                return Err(Reject::bad("line ends in a bare LF"));
            }
            if at - 1 > self.line {
                self.whole_line(at - 1 - self.line, at + 1, limits)?;
            } else if self.lines > 0 {
                return match at + 1 - self.start > limits.head {
                    true => Err(HEAD_TOO_LARGE),
                    false => Ok(Some(at + 1)),
                };
            } else {
                self.skipped += 1;
                self.start = at + 1;
                if self.skipped > LEADING_LINES {
                    return Err(Reject::bad("empty lines before the request"));
                }
            }
            self.line = at + 1;
        }
        self.searched = bytes.len();
        let held = bytes.len() - self.start;
        // The last byte may be the CR of the line's end.
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
        } else if self.lines - 1 > limits.headers.min(MAX_FIELDS) {
            return Err(Reject::new(Status::FieldsTooLarge, "too many field lines"));
        }
        Ok(())
    }

    /// Answers at once what would otherwise wait for a time-out: a TLS greeting, an HTTP/0.9 line,
    /// another protocol's preface.
    fn check_early(&mut self, bytes: &[u8]) -> Result<(), Reject> {
        if self.lines == 0 {
            let first = bytes.get(self.start).copied();
            return match first.is_none_or(|byte| is_token(byte) || byte == b'\r') {
                true => Ok(()),
                false => Err(Reject::bad("invalid method")),
            };
        }
        if !self.checked {
            Line::parse(&bytes[self.start..self.fields - 2])?;
            self.checked = true;
        }
        Ok(())
    }
}

const LINE_TOO_LONG: Reject = Reject::new(Status::UriTooLong, "request line too long");
const HEAD_TOO_LARGE: Reject = Reject::new(Status::FieldsTooLarge, "head too large");
