//! The field lines that describe a file, made once and copied into each response.

use std::fmt;

use crate::date::format_date;
use crate::{Coding, Validators};

/// A file's prebuilt field lines: what a cache keeps beside the contents.
///
/// The three answers that a file can give need different lines, so they stand in the order that makes
/// each a prefix of the next: for 304, for 206, for 200. Give one to [`Head::block`](crate::Head::block).
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
    /// Where the lines for each kind of answer end.
    unchanged: usize,
    described: usize,
    partial: usize,
}

impl Entity {
    /// The lines for a file of `length` bytes; its type is a [`ContentType`](crate::ContentType), or
    /// whatever else is written as one. `others` are lines for every answer, 304 included, such as
    /// `Cache-Control` and `Vary`. Line breaks in them become spaces.
    /// An empty tag gives no `ETag` line.
    pub fn new(
        content_type: impl fmt::Display,
        validators: &Validators<'_>,
        length: u64,
        others: &[(&str, &str)],
    ) -> Entity {
        Entity::encoded(content_type, Coding::Identity, validators, length, others)
    }

    /// As [`Entity::new`], of a representation with a content coding, which `Content-Encoding` names: the
    /// type is that of what is encoded, the length and the validators are those of the encoded bytes.
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

    /// For 304: what RFC 9110, 15.4.5 asks for, and nothing about the content.
    pub fn unchanged(&self) -> &[u8] {
        &self.lines[..self.unchanged]
    }

    /// For 206: all but the length. [`Head::part`](crate::Head::part) adds that of the part.
    pub fn partial(&self) -> &[u8] {
        &self.lines[..self.partial]
    }

    /// For 206 with several parts: neither the type, which stands in each part, nor the length.
    /// [`Multipart::head`](crate::Multipart::head) adds those of the whole.
    pub fn multipart(&self) -> &[u8] {
        &self.lines[..self.described]
    }

    /// The line that tells the type, for each of several parts.
    pub fn type_line(&self) -> &[u8] {
        &self.lines[self.described..self.partial]
    }

    /// For 200: everything.
    pub fn full(&self) -> &[u8] {
        &self.lines
    }
}

/// Adds one field line. Line breaks and NULs in the value become spaces, so that no value, wherever it
/// came from, can end the line and begin another (RFC 9110, 5.5).
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
