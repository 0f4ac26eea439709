//! Bodies: their content, and where they end (RFC 9112, 6 and 7.1).

use crate::limits::Limits;
use crate::reject::Reject;
use crate::request::chunk_extension::Extension;
use crate::request::framing::Body;
use crate::status::Status;
use crate::syntax::bytes::{is_token, is_value};

/// Parser of a message body in pieces of any size, which discards the content or copies it out.
///
/// It stores nothing of the body, so its memory is constant. With an unlimited [`Limits::body`] it also reads the
/// bodies of responses.
///
/// ```
/// use phalanx_http::{Body, BodyParser, Limits};
///
/// let mut parser = BodyParser::new(Body::Length(5), &Limits::default())?;
/// assert_eq!(parser.feed(b"hel")?, 3);
/// assert!(!parser.is_done());
/// assert_eq!(parser.feed(b"loGET / ")?, 2); // the rest is the next request
/// assert!(parser.is_done());
/// # Ok::<(), phalanx_http::Reject>(())
/// ```
#[derive(Debug, Clone)]
pub struct BodyParser {
    state: State,
    /// Content bytes still allowed.
    budget: u64,
    /// Trailer bytes still allowed.
    trailer_budget: usize,
    /// Bytes of chunk extensions still allowed.
    extensions: usize,
    /// Whether white space may follow the size of a chunk.
    is_padded: bool,
    /// Start of the current trailer's name, compared with [`FORBIDDEN`].
    name: [u8; MAX_FORBIDDEN_NAME],
    name_length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Remaining bytes of a body with known length.
    Length(u64),
    /// In the hexadecimal size of a chunk, after `digits` digits.
    Size {
        size: u64,
        digits: u8,
    },
    /// In the extensions that follow the size.
    Extension(u64, Extension),
    /// Before the LF that ends the size line.
    SizeEnd(u64),
    /// Remaining bytes of the chunk.
    Data(u64),
    DataCr,
    DataLf,
    /// At the start of a trailer line or of the closing empty line.
    Trailer,
    Name,
    Value,
    TrailerLf,
    LastLf,
    Done,
}

/// Fields that a trailer must not contain (RFC 9110, 6.5.1), because recipients disagree on whether they
/// apply.
const FORBIDDEN: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"host"];
const MAX_FORBIDDEN_NAME: usize = 17;

const TOO_LARGE: Reject = Reject::new(Status::ContentTooLarge, "body too large");
const EXTENSIONS_TOO_LARGE: Reject =
    Reject::new(Status::ContentTooLarge, "chunk extensions too large");

impl BodyParser {
    /// Creates a parser for a body with this framing. It accepts at most [`Limits::body`] bytes of content,
    /// [`Limits::chunk_extensions`] bytes of extensions, and as many bytes of trailers as a head may have.
    ///
    /// # Errors
    ///
    /// 413 immediately if the declared length exceeds the limit.
    pub fn new(body: Body, limits: &Limits) -> Result<BodyParser, Reject> {
        let state = match body {
            Body::None | Body::Length(0) => State::Done,
            Body::Length(length) if length > limits.body => return Err(TOO_LARGE),
            Body::Length(length) => State::Length(length),
            Body::Chunked => State::Size { size: 0, digits: 0 },
        };
        Ok(BodyParser {
            state,
            budget: limits.body,
            trailer_budget: limits.head,
            extensions: limits.chunk_extensions,
            is_padded: false,
            name: [0; MAX_FORBIDDEN_NAME],
            name_length: 0,
        })
    }

    /// Accepts white space between the size of a chunk and the end of its line, as some old servers send it.
    #[must_use]
    pub fn padded(mut self) -> BodyParser {
        self.is_padded = true;
        self
    }

    /// Whether the body is complete. No further bytes are consumed after that.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Processes bytes of the body. Returns the number of bytes consumed: all of them, or fewer if the body ends before
    /// the end of `bytes`.
    ///
    /// # Errors
    ///
    /// 400 if the chunked framing violates RFC 9112, 7.1, including extensions and trailers. 413 if the content or the
    /// extensions exceed their limit; for content, this is known from a chunk's size before its data. 431 if the
    /// trailers are too long. The result does not depend on how the bytes are split. The connection must be closed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Reject> {
        self.pieces(bytes, |_| ())
    }

    /// Like [`feed`](Self::feed), and appends the content to `out`, without the framing of chunks and without
    /// trailers.
    ///
    /// ```
    /// use phalanx_http::{Body, BodyParser, Limits};
    ///
    /// let mut parser = BodyParser::new(Body::Chunked, &Limits::default())?;
    /// let mut content = Vec::new();
    /// assert_eq!(parser.copy(b"2\r\nhi\r\n0\r\n\r\nGET", &mut content)?, 12);
    /// assert_eq!(content, b"hi");
    /// # Ok::<(), phalanx_http::Reject>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`feed`](Self::feed).
    pub fn copy(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Reject> {
        self.pieces(bytes, |content| out.extend_from_slice(content))
    }

    /// Processes bytes, and calls `take` for each piece of content.
    fn pieces(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<usize, Reject> {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Done => break,
                State::Length(remaining) => {
                    let (consumed, remaining) = skip(&bytes[at..], remaining);
                    take(&bytes[at..at + consumed]);
                    at += consumed;
                    self.state =
                        if remaining == 0 { State::Done } else { State::Length(remaining) };
                }
                State::Data(remaining) => {
                    let (consumed, remaining) = skip(&bytes[at..], remaining);
                    take(&bytes[at..at + consumed]);
                    at += consumed;
                    self.state =
                        if remaining == 0 { State::DataCr } else { State::Data(remaining) };
                }
                state => {
                    self.state = self.step(state, bytes[at])?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    fn step(&mut self, state: State, byte: u8) -> Result<State, Reject> {
        match (state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                // Sixteen digits fill 64 bits; more are treated as an attack, even if they are zeros.
                if digits == 16 {
                    return Err(Reject::bad("chunk size too long"));
                }
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                Ok(State::Size { size: size << 4 | digit, digits: digits + 1 })
            }
            (State::Size { digits: 0, .. }, _) => Err(Reject::bad("invalid chunk size")),
            (State::Size { size, .. }, b'\r') => Ok(State::SizeEnd(size)),
            (State::Size { size, .. }, _) => {
                self.extension(size, Extension::begin(byte), "invalid chunk size")
            }
            (State::Extension(size, extension), b'\r')
                if extension.may_end() || self.is_padded && extension.is_gap() =>
            {
                Ok(State::SizeEnd(size))
            }
            (State::Extension(size, extension), _) => {
                self.extension(size, extension.next(byte), "invalid chunk extension")
            }
            (State::SizeEnd(0), b'\n') => Ok(State::Trailer),
            (State::SizeEnd(size), b'\n') => {
                self.budget = self.budget.checked_sub(size).ok_or(TOO_LARGE)?;
                Ok(State::Data(size))
            }
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size { size: 0, digits: 0 }),
            (State::DataCr | State::DataLf, _) => Err(Reject::bad("chunk longer than its size")),
            (State::Trailer, b'\r') => Ok(State::LastLf),
            (State::Trailer | State::Name, _) if is_token(byte) => self.name(state, byte),
            (State::Name, b':') => self.check_name(),
            (State::Value, b'\r') => Ok(State::TrailerLf),
            (State::Value, _) if is_value(byte) => self.spend_trailer_byte().map(|()| state),
            (State::Trailer | State::Name | State::Value, _) => Err(Reject::bad("invalid trailer")),
            (State::TrailerLf, b'\n') => Ok(State::Trailer),
            (State::LastLf, b'\n') => Ok(State::Done),
            (State::SizeEnd(_) | State::TrailerLf | State::LastLf, _) => {
                Err(Reject::bad("CR without LF in a chunked body"))
            }
            // These bytes are skipped in runs.
            (State::Length(_) | State::Data(_) | State::Done, _) => Ok(state),
        }
    }

    /// Consumes one byte of a chunk extension; `next` is the parser state if the grammar allows the byte.
    fn extension(
        &mut self,
        size: u64,
        next: Option<Extension>,
        otherwise: &'static str,
    ) -> Result<State, Reject> {
        let next = next.ok_or(Reject::bad(otherwise))?;
        let remaining = self.extensions.checked_sub(1);
        self.extensions = remaining.ok_or(EXTENSIONS_TOO_LARGE)?;
        Ok(State::Extension(size, next))
    }

    fn name(&mut self, before: State, byte: u8) -> Result<State, Reject> {
        self.spend_trailer_byte()?;
        if before == State::Trailer {
            self.name_length = 0;
        }
        if let Some(slot) = self.name.get_mut(self.name_length) {
            *slot = byte;
        }
        self.name_length += 1;
        Ok(State::Name)
    }

    fn check_name(&mut self) -> Result<State, Reject> {
        self.spend_trailer_byte()?;
        let name = self.name.get(..self.name_length).unwrap_or_default();
        if FORBIDDEN.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden)) {
            return Err(Reject::bad("framing field in a trailer"));
        }
        Ok(State::Value)
    }

    fn spend_trailer_byte(&mut self) -> Result<(), Reject> {
        let trailer_budget = self.trailer_budget.checked_sub(1);
        self.trailer_budget =
            trailer_budget.ok_or(Reject::new(Status::FieldsTooLarge, "trailers too large"))?;
        Ok(())
    }
}

/// Returns how many of the `left` bytes are in `bytes`, and how many remain.
fn skip(bytes: &[u8], remaining: u64) -> (usize, u64) {
    let consumed =
        usize::try_from(remaining).map_or(bytes.len(), |remaining| remaining.min(bytes.len()));
    (consumed, remaining - consumed as u64)
}
