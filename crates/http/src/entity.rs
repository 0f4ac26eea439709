//! Header lines that describe a file, formatted once and copied into each response.

use std::fmt;

use crate::date::format_date;
use crate::{Coding, Validators};

/// Preformatted header lines of a file, cached with its content.
///
/// The three kinds of responses need different lines; the lines are ordered such that each set is a prefix of
/// the next: for 304, for 206, for 200. Pass one to [`Head::block`](crate::Head::block).
///
/// ```
/// use phalanx_http::{Entity, Validators, content_type};
///
/// let validators = Validators { etag: "\"v1\"", modified: 784_111_777 };
/// let entity = Entity::new(content_type(b"a.txt"), &validators, 2048, &[("Cache-Control", "no-cache")]);
/// assert_eq!(
///     entity.full(),
///     b"ETag: \"v1\"\r\n\
///       Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
///       Cache-Control: no-cache\r\n\
///       Accept-Ranges: bytes\r\n\
///       Content-Type: text/plain; charset=utf-8\r\n\
///       Content-Length: 2048\r\n"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    lines: Box<[u8]>,
    /// Ends of the lines for each kind of response.
    unchanged: usize,
    described: usize,
    partial: usize,
}

impl Entity {
    /// The lines for a file of `length` bytes. Its type is a [`ContentType`](crate::ContentType), or anything
    /// that formats as one. `others` are lines for every response including 304, such as `Cache-Control` and
    /// `Vary`. Line breaks in them are replaced by spaces. An empty tag produces no `ETag` line.
    pub fn new(
        content_type: impl fmt::Display,
        validators: &Validators<'_>,
        length: u64,
        others: &[(&str, &str)],
    ) -> Entity {
        Entity::encoded(content_type, Coding::Identity, validators, length, others)
    }

    /// As [`Entity::new`], for a representation with a content coding, which is named by `Content-Encoding`.
    /// The type is that of the decoded content; length and validators are those of the encoded content.
    pub fn encoded(
        content_type: impl fmt::Display,
        coding: Coding,
        validators: &Validators<'_>,
        length: u64,
        others: &[(&str, &str)],
    ) -> Entity {
        let mut lines = Vec::with_capacity(256);
        if !validators.etag.is_empty() {
            line(&mut lines, "ETag", validators.etag.as_bytes());
        }
        line(&mut lines, "Last-Modified", &format_date(validators.modified));
        for (name, value) in others {
            line(&mut lines, name, value.as_bytes());
        }
        let unchanged = lines.len();
        line(&mut lines, "Accept-Ranges", b"bytes");
        if coding != Coding::Identity {
            line(&mut lines, "Content-Encoding", coding.name().as_bytes());
        }
        let described = lines.len();
        line(&mut lines, "Content-Type", content_type.to_string().as_bytes());
        let partial = lines.len();
        line(&mut lines, "Content-Length", itoa::Buffer::new().format(length).as_bytes());
        Entity { lines: lines.into(), unchanged, described, partial }
    }

    /// Lines for 304: those required by RFC 9110, 15.4.5, without those about the content.
    pub fn unchanged(&self) -> &[u8] {
        &self.lines[..self.unchanged]
    }

    /// Lines for 206: all but the length. [`Head::part`](crate::Head::part) adds that of the range.
    pub fn partial(&self) -> &[u8] {
        &self.lines[..self.partial]
    }

    /// Lines for 206 with several ranges: without the length, and without the type, which each part contains.
    /// [`Multipart::head`](crate::Multipart::head) adds those of the whole.
    pub fn multipart(&self) -> &[u8] {
        &self.lines[..self.described]
    }

    /// The line with the content type, for the parts of a multipart response.
    pub fn type_line(&self) -> &[u8] {
        &self.lines[self.described..self.partial]
    }

    /// Lines for 200: all.
    pub fn full(&self) -> &[u8] {
        &self.lines
    }
}

/// Appends a field line. Line breaks and NULs in the value are replaced by spaces, so that no value can start
/// another line (RFC 9110, 5.5).
pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}
