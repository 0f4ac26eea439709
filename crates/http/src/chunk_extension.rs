//! Chunk extensions, checked byte by byte (RFC 9112, 7.1.1).
//!
//! ```text
//! chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )
//! ```
//!
//! The server ignores what an extension says. It checks the grammar all the same: a reader that skips to
//! the line end and one that knows quoted strings would find different ends.

use crate::bytes::{is_token, is_value};

/// The position within the extensions of one size line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    /// White space behind the size, a name or a value: another extension must follow.
    Gap,
    /// Behind a semicolon: a name must follow.
    Begin,
    Name,
    /// White space behind a name: `=` or another extension must follow.
    NameGap,
    /// Behind `=`: a value must follow.
    Equals,
    Token,
    Quoted,
    /// Behind a backslash in a quoted string.
    Escaped,
    QuotedEnd,
}

impl Extension {
    /// The first byte behind a chunk's size, unless it is the CR that ends the line.
    pub(crate) fn begin(byte: u8) -> Option<Extension> {
        Extension::Gap.next(byte)
    }

    /// The position behind `byte`. None if the grammar does not allow `byte` here.
    pub(crate) fn next(self, byte: u8) -> Option<Extension> {
        use Extension::*;
        match (self, byte) {
            (Quoted, b'"') => Some(QuotedEnd),
            (Quoted, b'\\') => Some(Escaped),
            (Quoted | Escaped, _) => is_value(byte).then_some(Quoted),
            (Begin | Equals, b' ' | b'\t') => Some(self),
            (Name | NameGap, b' ' | b'\t') => Some(NameGap),
            (Gap | Token | QuotedEnd, b' ' | b'\t') => Some(Gap),
            (Gap | Name | NameGap | Token | QuotedEnd, b';') => Some(Begin),
            (Name | NameGap, b'=') => Some(Equals),
            (Equals, b'"') => Some(Quoted),
            (Begin | Name, _) => is_token(byte).then_some(Name),
            (Equals | Token, _) => is_token(byte).then_some(Token),
            (Gap | NameGap | QuotedEnd, _) => None,
        }
    }

    /// Whether the size line may end here.
    pub(crate) fn may_end(self) -> bool {
        matches!(self, Extension::Name | Extension::Token | Extension::QuotedEnd)
    }
}
