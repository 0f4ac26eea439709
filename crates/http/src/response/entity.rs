//! Fields that describe a file, encoded once and copied into each response.

use std::fmt;

use crate::negotiate::conditional::Validators;
use crate::negotiate::encoding::Coding;
use crate::response::block::{FieldBlock, Fields, Position};
use crate::syntax::date::format_date;

/// Prepared fields of a file, cached with its content.
///
/// Responses with 304, 206 and 200 need different fields. The fields are ordered such that each of these sets is a
/// prefix of the next.
///
/// ```
/// use phalanx_http::{DateLine, Entity, Reply, ResponseBuffer, Status, Validators, content_type};
///
/// let validators = Validators { etag: "\"v1\"", modified: 784_111_777 };
/// let entity = Entity::new(content_type(b"a.txt"), &validators, 2048, &[("Cache-Control", "no-cache")]);
/// let mut out = ResponseBuffer::lines(Vec::new());
/// out.head(Status::Ok, &DateLine::new(0), Reply::CLOSE).entity(&entity).finish();
/// assert!(out.bytes().ends_with(
///     b"ETag: \"v1\"\r\n\
///       Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
///       Cache-Control: no-cache\r\n\
///       Accept-Ranges: bytes\r\n\
///       Content-Type: text/plain; charset=utf-8\r\n\
///       Content-Length: 2048\r\n\r\n"
/// ));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    fields: FieldBlock,
    /// Ends of the fields for each kind of response.
    unchanged: Position,
    described: Position,
    partial: Position,
    length: u64,
}

impl Entity {
    /// The fields for a file of `length` bytes. Its type is a [`ContentType`](crate::ContentType), or anything
    /// that formats as one. `others` are fields for every response including 304, such as `Cache-Control` and
    /// `Vary`. An empty tag produces no `ETag` field.
    pub fn new(
        content_type: impl fmt::Display,
        validators: &Validators<'_>,
        length: u64,
        others: &[(&str, &str)],
    ) -> Entity {
        Entity::encoded(content_type, Coding::Identity, validators, length, others)
    }

    /// Like [`Entity::new`], for a representation with a content coding, which is named by `Content-Encoding`.
    /// The type is that of the decoded content; length and validators are those of the encoded content.
    pub fn encoded(
        content_type: impl fmt::Display,
        coding: Coding,
        validators: &Validators<'_>,
        length: u64,
        others: &[(&str, &str)],
    ) -> Entity {
        let mut fields = FieldBlock::of_a_file();
        if !validators.etag.is_empty() {
            fields.push("ETag", validators.etag.as_bytes());
        }
        fields.push("Last-Modified", &format_date(validators.modified));
        for (name, value) in others {
            fields.push(name, value.as_bytes());
        }
        let unchanged = fields.end();
        fields.push("Accept-Ranges", b"bytes");
        if coding != Coding::Identity {
            fields.push("Content-Encoding", coding.name().as_bytes());
        }
        let described = fields.end();
        fields.push("Content-Type", content_type.to_string().as_bytes());
        let partial = fields.end();
        fields.push("Content-Length", itoa::Buffer::new().format(length).as_bytes());
        fields.shrink();
        Entity { fields, unchanged, described, partial, length }
    }

    /// Fields for 304: those required by RFC 9110, 15.4.5, without fields that describe the content.
    pub fn unchanged(&self) -> Fields<'_> {
        self.fields.between(Position::default(), self.unchanged)
    }

    /// Fields for 206: all but the length. [`Head::part`](crate::Head::part) adds that of the range.
    pub fn partial(&self) -> Fields<'_> {
        self.fields.between(Position::default(), self.partial)
    }

    /// Fields for 206 with several ranges, without length and type. [`Multipart::head`](crate::Multipart::head) adds
    /// those of the multipart content; each part contains its own.
    pub fn multipart(&self) -> Fields<'_> {
        self.fields.between(Position::default(), self.described)
    }

    /// The content type alone.
    pub fn content_type(&self) -> Fields<'_> {
        self.fields.between(self.described, self.partial)
    }

    /// Fields for 200: all. [`Head::entity`](crate::Head::entity) appends them.
    pub(crate) fn full(&self) -> Fields<'_> {
        self.fields.all()
    }

    /// Length of the file, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Memory of the fields, in bytes.
    pub fn bytes(&self) -> usize {
        self.fields.bytes()
    }
}
