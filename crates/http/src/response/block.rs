//! Prepared fields, in the encodings of both protocols.

use crate::response::encode;

/// Fields that are encoded once and appended to any number of responses.
///
/// They are stored as lines for HTTP/1.1 and as a field block for HTTP/2. The block refers to no table of a
/// connection (RFC 7541, 6.2.2), so it fits every connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldBlock {
    http1: Vec<u8>,
    http2: Vec<u8>,
}

/// Fields of a [`FieldBlock`], for [`Head::fields`](crate::Head::fields).
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    pub(crate) http1: &'a [u8],
    pub(crate) http2: &'a [u8],
}

/// A position between two fields of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    http1: usize,
    http2: usize,
}

impl FieldBlock {
    /// An empty block with space for the fields of a file.
    pub(crate) fn of_a_file() -> FieldBlock {
        FieldBlock { http1: Vec::with_capacity(256), http2: Vec::with_capacity(192) }
    }

    /// Appends a field. Line breaks and NULs in the value are replaced by spaces.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        encode::line(&mut self.http1, name.as_bytes(), value);
        encode::field(&mut self.http2, name.as_bytes(), value);
    }

    /// Returns unused memory.
    pub(crate) fn shrink(&mut self) {
        self.http1.shrink_to_fit();
        self.http2.shrink_to_fit();
    }

    /// Whether the block contains no field.
    pub fn is_empty(&self) -> bool {
        self.http1.is_empty()
    }

    /// All fields.
    #[inline]
    pub fn all(&self) -> Fields<'_> {
        Fields { http1: &self.http1, http2: &self.http2 }
    }

    /// Size of both encodings, in bytes.
    pub fn bytes(&self) -> usize {
        self.http1.len() + self.http2.len()
    }

    /// The end of the fields so far.
    pub(crate) fn end(&self) -> Position {
        Position { http1: self.http1.len(), http2: self.http2.len() }
    }

    /// The fields between two positions.
    #[inline]
    pub(crate) fn between(&self, from: Position, to: Position) -> Fields<'_> {
        Fields {
            http1: &self.http1[from.http1..to.http1],
            http2: &self.http2[from.http2..to.http2],
        }
    }
}
