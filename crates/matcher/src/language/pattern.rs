//! Patterns of `LIKE`: texts between wildcards `%`.

use std::fmt;

use crate::limits::MAX_SEARCHED;
use crate::value::Literal;

/// The texts between the wildcards. There is at least one, and only the first and the last may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern(Vec<Box<str>>);

impl Pattern {
    /// A pattern of the texts between wildcards.
    pub(crate) fn new(mut pieces: Vec<Box<str>>) -> Pattern {
        let last = pieces.len() - 1;
        let mut at = 0;
        pieces.retain(|piece| {
            at += 1;
            !piece.is_empty() || at == 1 || at == last + 1
        });
        Pattern(pieces)
    }

    /// The pattern of texts that contain `part`.
    pub(crate) fn contains(part: Box<str>) -> Pattern {
        Pattern::new(vec!["".into(), part, "".into()])
    }

    /// The text that begins all texts of the pattern.
    pub(crate) fn prefix(&self) -> &str {
        &self.0[0]
    }

    /// Whether the pattern is a text without wildcards.
    pub(crate) fn is_text(&self) -> bool {
        self.0.len() == 1
    }

    /// Whether the pattern is neither a text nor a prefix.
    pub(crate) fn is_searched(&self) -> bool {
        self.0.len() > 2 || self.0.len() == 2 && !self.0[1].is_empty()
    }

    /// Whether `text` has this pattern; unknown if it is too long to be searched. The time is linear, because each
    /// piece is matched at the first place where it fits, without backtracking.
    pub(crate) fn matches(&self, text: &str) -> Option<bool> {
        let (first, rest) = self.0.split_first()?;
        let Some((last, middle)) = rest.split_last() else { return Some(text == &**first) };
        if self.is_searched() && text.len() > MAX_SEARCHED {
            return None;
        }
        let inner = text.strip_prefix(&**first).and_then(|text| text.strip_suffix(&**last));
        Some(inner.is_some_and(|mut text| {
            middle.iter().all(|piece| match text.find(&**piece) {
                Some(at) => {
                    text = &text[at + piece.len()..];
                    true
                }
                None => false,
            })
        }))
    }
}

/// Writes the pattern as a literal, with `ESCAPE` if it is needed.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escapes = self.0.iter().any(|piece| piece.contains(['%', '_']));
        let mut text = String::new();
        for (at, piece) in self.0.iter().enumerate() {
            text.push_str(if at > 0 { "%" } else { "" });
            for c in piece.chars() {
                if escapes && matches!(c, '%' | '_' | '\\') {
                    text.push('\\');
                }
                text.push(c);
            }
        }
        write!(f, "{}", Literal::String(text.into()))?;
        f.write_str(if escapes { " ESCAPE '\\'" } else { "" })
    }
}
