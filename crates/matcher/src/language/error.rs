//! What is wrong with a filter's text, and where.

use std::fmt;

use crate::NumberError;

/// Why a text is no filter. Its display names the column and what to do, so it can be handed to whoever
/// wrote the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    pub(crate) column: usize,
    pub(crate) reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Expected {
        what: &'static str,
        found: String,
    },
    Character(char),
    Open(&'static str),
    Number(NumberError),
    /// What is probably meant, and how that is written.
    Hint(&'static str),
    Unordered,
    Pattern,
    Escape,
    Long,
    Deep,
    Wide,
    Conditions,
}

impl FilterError {
    pub(crate) fn new(column: usize, reason: Reason) -> FilterError {
        FilterError { column, reason }
    }

    /// Where: characters from the start, the first being 1. The text's end is one past the last.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        match &self.reason {
            Reason::Expected { what, found } => write!(f, "expected {what}, found {found}"),
            Reason::Character('&') => f.write_str("conditions are joined by AND here"),
            Reason::Character('|') => f.write_str("alternatives are joined by OR here"),
            Reason::Character(c) => {
                write!(f, "{c:?} has no meaning here; put names with it in double quotes")
            }
            Reason::Open(quote) => write!(f, "a {quote} opens here and is not closed"),
            Reason::Number(error) => write!(f, "{error}"),
            Reason::Hint(hint) => f.write_str(hint),
            Reason::Unordered => f.write_str("TRUE and FALSE have no order; use = or <>"),
            Reason::Pattern => f.write_str(
                "LIKE takes a prefix followed by one %; write others with ESCAPE, or use =",
            ),
            Reason::Escape => {
                f.write_str("ESCAPE takes one character, which may precede only %, _ and itself")
            }
            Reason::Long => write!(f, "longer than {} bytes", crate::Filter::MAX_TEXT),
            Reason::Deep => {
                write!(
                    f,
                    "more than {} parentheses and NOTs in each other",
                    crate::Filter::MAX_DEPTH
                )
            }
            Reason::Wide => write!(
                f,
                "comes to more than {} alternatives; make several filters of it",
                crate::Filter::MAX_ALTERNATIVES
            ),
            Reason::Conditions => write!(
                f,
                "an alternative has more than {} conditions; drop some",
                crate::Filter::MAX_CONDITIONS
            ),
        }
    }
}

impl std::error::Error for FilterError {}
