//! Writing the head of a response (RFC 9112, 4 and 6; RFC 9113, 8.3.2).

use std::io::Write as _;

use phalanx_http2::encoder;

use crate::response::block::Fields;
use crate::response::buffer::{Encoding, ResponseBuffer};
use crate::response::date_line::DateLine;
use crate::response::encode;
use crate::response::entity::Entity;
use crate::response::reply::Reply;
use crate::status::Status;
use crate::version::Version;

impl ResponseBuffer {
    /// Starts a response: writes its status, `Server`, `Date`, and `Connection` if it differs from the default
    /// of the version (RFC 9112, 9.3). In lines the version is always 1.1, even for a 1.0 client (RFC 9110,
    /// 6.2).
    #[inline]
    pub fn head(&mut self, status: Status, date: &DateLine, reply: Reply) -> Head<'_> {
        self.start(status, status.code(), status.line().as_bytes(), date, reply)
    }

    /// Like [`head`](Self::head), for the response of another server, whose status may be any from 200 to 999, and 101.
    /// The reason phrase of a status that [`Status`] does not know is empty (RFC 9112, 4).
    pub fn relayed_head(&mut self, code: u16, date: &DateLine, reply: Reply) -> Head<'_> {
        match Status::from_code(code) {
            Some(status) => self.head(status, date, reply),
            None => {
                let line = format!("HTTP/1.1 {code} \r\n");
                // `Ok` stands for any status that may have content.
                self.start(Status::Ok, code, line.as_bytes(), date, reply)
            }
        }
    }

    #[inline(always)]
    fn start(
        &mut self,
        status: Status,
        code: u16,
        line: &[u8],
        date: &DateLine,
        reply: Reply,
    ) -> Head<'_> {
        self.status = code;
        self.content = 0;
        self.is_chunked = false;
        self.length = (reply.head_only || !status.has_content()).then_some(0);
        match self.encoding {
            Encoding::Lines => {
                self.bytes.extend_from_slice(line);
                self.bytes.extend_from_slice(date.fields().http1);
                if !reply.keep_alive {
                    self.bytes.extend_from_slice(b"Connection: close\r\n");
                } else if reply.version == Version::Http10 {
                    self.bytes.extend_from_slice(b"Connection: keep-alive\r\n");
                }
            }
            Encoding::Block => {
                encoder::status(&mut self.bytes, code);
                self.bytes.extend_from_slice(date.fields().http2);
            }
        }
        Head { buffer: self, status }
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
    pub fn field(self, name: impl AsRef<[u8]>, value: &[u8]) -> Head<'a> {
        let name = name.as_ref();
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

    /// Announces content of unknown length, for [`ResponseBuffer::piece`]: in chunks over HTTP/1.1 (RFC 9112, 7.1). For
    /// an HTTP/1.0 client, the end of the content is the close of the connection.
    pub fn streamed(self, version: Version) -> Head<'a> {
        if self.buffer.length.is_some() || version != Version::Http11 {
            return self;
        }
        self.buffer.is_chunked = true;
        self.field("Transfer-Encoding", b"chunked")
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

    /// Ends the head and appends all of the content, which consists of `parts`, with this type. A response without
    /// content, such as to HEAD, has only the head.
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
