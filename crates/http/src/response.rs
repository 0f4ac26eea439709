//! Responses: how a request determines their form, and the buffer that they are written to.

use std::io::Write as _;

use crate::block::Fields;
use crate::encode;
use crate::{DateLine, Entity, Method, Request, Status, Version};

/// The interim response for [`Request::expect_continue`]: send it before reading the body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Properties of a request that determine the form of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Version of the request.
    pub version: Version,
    /// Whether the connection persists.
    pub keep_alive: bool,
    /// Whether the request was HEAD: the same head without content (RFC 9110, 9.3.2).
    pub head_only: bool,
}

impl Reply {
    /// The form for this request.
    pub fn to(request: &Request<'_>) -> Reply {
        Reply {
            version: request.version,
            keep_alive: request.keep_alive,
            head_only: request.method == Method::Head,
        }
    }

    /// For the last response on a connection: after a [`Reject`](crate::Reject), or when shedding load.
    pub const CLOSE: Reply =
        Reply { version: Version::Http11, keep_alive: false, head_only: false };

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

/// The encoding of a response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Lines, for HTTP/1.0 and 1.1.
    Lines,
    /// A field block, for HTTP/2.
    Block,
}

/// Buffer of responses to send, with the status and the content length of the latest.
///
/// A buffer for HTTP/1.1 may gather several responses. A buffer for HTTP/2 contains one; its head is a field
/// block, which ends at [`head_length`](Self::head_length).
///
/// ```
/// use phalanx_http::{DateLine, Reply, ResponseBuffer, Status};
///
/// let mut out = ResponseBuffer::lines(Vec::with_capacity(512));
/// let date = DateLine::new(784_111_777);
/// out.head(Status::Ok, &date, Reply::CLOSE).field("Content-Type", b"text/plain").length(2).finish();
/// out.content(b"ok");
/// assert_eq!(
///     out.bytes(),
///     b"HTTP/1.1 200 OK\r\n\
///       Server: phalanx\r\n\
///       Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
///       Connection: close\r\n\
///       Content-Type: text/plain\r\n\
///       Content-Length: 2\r\n\r\nok"
/// );
/// assert_eq!((out.status(), out.content_bytes()), (200, 2));
/// ```
#[derive(Debug)]
pub struct ResponseBuffer {
    bytes: Vec<u8>,
    encoding: Encoding,
    status: u16,
    /// End of the latest head.
    head: usize,
    /// Declared length of the content.
    length: Option<u64>,
    /// Content written or sent so far, in bytes.
    content: u64,
}

impl ResponseBuffer {
    /// A buffer for HTTP/1.0 and 1.1 that uses this memory.
    pub fn lines(memory: Vec<u8>) -> ResponseBuffer {
        ResponseBuffer::new(memory, Encoding::Lines)
    }

    /// A buffer for one response over HTTP/2 that uses this memory.
    pub fn block(memory: Vec<u8>) -> ResponseBuffer {
        ResponseBuffer::new(memory, Encoding::Block)
    }

    fn new(bytes: Vec<u8>, encoding: Encoding) -> ResponseBuffer {
        ResponseBuffer { bytes, encoding, status: 0, head: 0, length: None, content: 0 }
    }

    /// Starts a response: writes its status, `Server`, `Date`, and `Connection` if it differs from the default
    /// of the version (RFC 9112, 9.3). In lines the version is always 1.1, even for a 1.0 client (RFC 9110,
    /// 6.2).
    #[inline]
    pub fn head(&mut self, status: Status, date: &DateLine, reply: Reply) -> Head<'_> {
        self.status = status.code();
        self.content = 0;
        self.length = (reply.head_only || !status.has_content()).then_some(0);
        match self.encoding {
            Encoding::Lines => {
                self.bytes.extend_from_slice(status.line().as_bytes());
                self.bytes.extend_from_slice(date.fields().http1);
                if !reply.keep_alive {
                    self.bytes.extend_from_slice(b"Connection: close\r\n");
                } else if reply.version == Version::Http10 {
                    self.bytes.extend_from_slice(b"Connection: keep-alive\r\n");
                }
            }
            Encoding::Block => {
                let mut digits = itoa::Buffer::new();
                encode::field(&mut self.bytes, ":status", digits.format(status.code()).as_bytes());
                self.bytes.extend_from_slice(date.fields().http2);
            }
        }
        Head { buffer: self, status }
    }

    /// Appends content of the latest response.
    #[inline]
    pub fn content(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.content += bytes.len() as u64;
    }

    /// Appends content of the latest response that `write` writes.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.content += (self.bytes.len() - before) as u64;
    }

    /// Counts content of the latest response that is sent from elsewhere, in bytes.
    pub fn count(&mut self, bytes: u64) {
        self.content += bytes;
    }

    /// Forgets the latest response: the next request has none yet.
    pub fn begin(&mut self) {
        (self.status, self.content) = (0, 0);
    }

    /// Status of the latest response; 0 before its head.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Content of the latest response written so far, in bytes.
    pub fn content_bytes(&self) -> u64 {
        self.content
    }

    /// Declared content length of the latest response; zero for a response without content, also to HEAD.
    pub fn declared(&self) -> Option<u64> {
        self.length
    }

    /// Length of the head in a buffer for HTTP/2.
    pub fn head_length(&self) -> usize {
        self.head
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes the bytes and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Takes the bytes to send, with their memory.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Replaces the memory, which must be empty.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        debug_assert!(memory.is_empty() && self.bytes.is_empty());
        self.bytes = memory;
    }
}

/// Writer of a response head. Does not allocate if the buffer has capacity; about 300 bytes suffice.
#[derive(Debug)]
#[must_use = "the head is complete only after `finish`"]
pub struct Head<'a> {
    buffer: &'a mut ResponseBuffer,
    status: Status,
}

impl<'a> Head<'a> {
    /// The status of the response.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// Appends prepared fields.
    #[inline]
    pub fn fields(self, fields: Fields<'_>) -> Head<'a> {
        self.buffer.bytes.extend_from_slice(match self.buffer.encoding {
            Encoding::Lines => fields.http1,
            Encoding::Block => fields.http2,
        });
        self
    }

    /// Appends one field. Line breaks and NULs in the value are replaced by spaces.
    pub fn field(self, name: &str, value: &[u8]) -> Head<'a> {
        match self.buffer.encoding {
            Encoding::Lines => encode::line(&mut self.buffer.bytes, name, value),
            Encoding::Block => encode::field(&mut self.buffer.bytes, name, value),
        }
        self
    }

    /// Appends the fields of a complete file.
    #[inline]
    pub fn entity(self, entity: &Entity) -> Head<'a> {
        self.buffer.length = self.buffer.length.or(Some(entity.length()));
        self.fields(entity.full())
    }

    /// Appends `Content-Length`, unless the status has no content (RFC 9110, 8.6).
    pub fn length(self, length: u64) -> Head<'a> {
        if !self.status.has_content() {
            return self;
        }
        self.buffer.length = self.buffer.length.or(Some(length));
        self.field("Content-Length", itoa::Buffer::new().format(length).as_bytes())
    }

    /// Appends `Content-Range` and `Content-Length` for the bytes from `start` to `end` of `length` (RFC
    /// 9110, 14.4), as in [`Ranged::Partial`](crate::Ranged::Partial): `start < end <= length`.
    pub fn part(self, start: u64, end: u64, length: u64) -> Head<'a> {
        debug_assert!(start < end && end <= length);
        // Three numbers of at most 20 digits, and nine other characters.
        let mut value = [0; 69];
        let mut rest = &mut value[..];
        write!(rest, "bytes {start}-{}/{length}", end.saturating_sub(1)).expect("the value fits");
        let unused = rest.len();
        let used = value.len() - unused;
        self.field("Content-Range", &value[..used]).length(end.saturating_sub(start))
    }

    /// Ends the head.
    #[inline]
    pub fn finish(mut self) {
        self.end();
    }

    /// Ends the head and appends all of the content, which consists of `parts`, with this type. A response
    /// without content, also to HEAD, has only the head.
    pub fn whole(self, content_type: &str, parts: &[&str]) {
        let is_sent = self.buffer.length.is_none();
        let mut head = self;
        if head.status.has_content() {
            let length = parts.iter().map(|part| part.len() as u64).sum();
            head = head.field("Content-Type", content_type.as_bytes()).length(length);
        }
        head.end();
        if is_sent {
            parts.iter().for_each(|part| head.buffer.content(part.as_bytes()));
        }
    }

    #[inline]
    fn end(&mut self) {
        if self.buffer.encoding == Encoding::Lines {
            self.buffer.bytes.extend_from_slice(b"\r\n");
        }
        self.buffer.head = self.buffer.bytes.len();
    }
}
