//! Validation of chunk extensions, byte by byte (RFC 9112, 7.1.1).
//!
//! ```text
//! chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )
//! ```
//!
//! The server ignores the content of extensions but validates their grammar: a recipient that skips to the
//! end of the line and one that parses quoted strings would otherwise find different ends.

use crate::syntax::bytes::{is_token, is_value};

/// Parser state within the extensions of one size line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    /// White space after the size, a name or a value: another extension must follow.
    Gap,
    /// After a semicolon: a name must follow.
    Begin,
    Name,
    /// White space after a name: `=` or another extension must follow.
    NameGap,
    /// After `=`: a value must follow.
    Equals,
    Token,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    QuotedEnd,
}

impl Extension {
    /// State after the first byte that follows a chunk's size, unless that is the CR that ends the line.
    pub(crate) fn begin(byte: u8) -> Option<Extension> {
        Extension::Gap.next(byte)
    }

    /// State after `byte`. `None` if the grammar does not allow `byte` here.
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

    /// Whether this is white space after a size, a name or a value.
    pub(crate) fn is_gap(self) -> bool {
        matches!(self, Extension::Gap | Extension::NameGap)
    }

    /// Whether the size line may end here.
    pub(crate) fn may_end(self) -> bool {
        matches!(self, Extension::Name | Extension::Token | Extension::QuotedEnd)
    }
}
