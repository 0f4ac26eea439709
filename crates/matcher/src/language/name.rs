//! Keywords, and names of attributes.

use std::fmt;

/// Keywords; as names they must be quoted.
pub(crate) const KEYWORDS: [&str; 11] =
    ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"];

/// Whether `word` is a keyword, in upper or lower case.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Whether an unquoted name may begin with `c`.
pub(crate) fn begins_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

/// Whether an unquoted name may continue with `c`.
pub(crate) fn within_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '.')
}

/// Writes a name, in double quotes if necessary.
pub(crate) struct Name<'n>(pub(crate) &'n str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name(name) = self;
        let is_bare =
            name.starts_with(begins_name) && name.chars().all(within_name) && !is_keyword(name);
        match is_bare {
            true => f.write_str(name),
            false => write!(f, "\"{}\"", name.replace('"', "\"\"")),
        }
    }
}
