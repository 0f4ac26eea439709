//! Errors in the text of a filter, with their position.

use std::fmt;

use crate::limits::{
    MAX_ALTERNATIVES, MAX_COMPUTED, MAX_CONDITIONS, MAX_DEPTH, MAX_OPERATORS, MAX_TEXT,
};
use crate::number::NumberError;

/// Maximum number of characters of a filter that a message repeats.
const MAX_SHOWN: usize = 24;

/// The reason why a text is not a valid filter. Its message names the column and the remedy, so it can be shown to the
/// author of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    pub(crate) column: usize,
    pub(crate) reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Expected {
        expected: &'static str,
        found: String,
    },
    Character(char),
    Open(&'static str),
    Number(NumberError),
    /// The probable intention, and the correct way to write it.
    Hint(&'static str),
    Unordered,
    Pattern,
    Escape,
    Long,
    Deep,
    Wide,
    Conditions,
    Computed,
    Operators,
}

/// The beginning of a part of the filter between two `quote`s, for use in messages. The whole filter would hide the
/// message, and control characters must not reach the author's terminal.
pub(crate) fn clipped(text: &str, quote: &str) -> String {
    let mut all = text.chars();
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    let short: String = all.by_ref().take(MAX_SHOWN).map(escape).collect();
    let dots = if all.next().is_some() { "…" } else { "" };
    format!("{quote}{short}{dots}{quote}")
}

impl FilterError {
    pub(crate) fn new(column: usize, reason: Reason) -> FilterError {
        FilterError { column, reason }
    }

    /// The position, in characters, starting at 1. The end of the text is one after the last character.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        match &self.reason {
            Reason::Expected { expected, found } => write!(f, "expected {expected}, found {found}"),
            Reason::Character('&') => f.write_str("conditions are joined by AND here"),
            Reason::Character('|') => f.write_str("alternatives are joined by OR here"),
            Reason::Character(c) => {
                write!(
                    f,
                    "unexpected character {c:?}; put a name that contains it in double quotes"
                )
            }
            Reason::Open(quote) => write!(f, "the {quote} that opens here is not closed"),
            Reason::Number(error) => write!(f, "{error}"),
            Reason::Hint(hint) => f.write_str(hint),
            Reason::Unordered => f.write_str("TRUE and FALSE have no order; use = or <>"),
            Reason::Pattern => f.write_str(
                "the only wildcard of LIKE is %, any text; write a literal _ with ESCAPE",
            ),
            Reason::Escape => {
                f.write_str("ESCAPE takes one character, which may precede only %, _ and itself")
            }
            Reason::Long => write!(f, "longer than {} bytes", MAX_TEXT),
            Reason::Deep => {
                write!(f, "more than {} nested parentheses and NOTs", MAX_DEPTH)
            }
            Reason::Wide => write!(
                f,
                "expands to more than {} alternatives; split it into several filters",
                MAX_ALTERNATIVES
            ),
            Reason::Computed => write!(
                f,
                "more than {MAX_COMPUTED} conditions with arithmetic, two attributes, CONTAINS or LIKE '%…'; remove some",
            ),
            Reason::Operators => {
                write!(
                    f,
                    "more than {MAX_OPERATORS} arithmetic operators; compute values before publishing"
                )
            }
            Reason::Conditions => {
                write!(f, "an alternative has more than {} conditions; remove some", MAX_CONDITIONS)
            }
        }
    }
}

impl std::error::Error for FilterError {}
