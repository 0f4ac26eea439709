//! Constants as the index compares them, and ranges between cuts.
//!
//! A *cut* is a place between values: just before or just after a constant. With cuts, the four comparisons, `BETWEEN`
//! and `LIKE 'prefix%'` all have the same form: the value lies between two cuts.

use std::sync::Arc;

use crate::number::Number;
use crate::value::Literal;

/// The type that a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Boolean,
    Number,
    Bytes,
}

/// A constant. Strings are compared as bytes, and the bytes of a cut need not be valid UTF-8. The conditions and tables
/// that hold a string share its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Constant {
    Boolean(bool),
    Number(Number),
    Bytes(Arc<[u8]>),
}

impl Constant {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Constant::Boolean(_) => Kind::Boolean,
            Constant::Number(_) => Kind::Number,
            Constant::Bytes(_) => Kind::Bytes,
        }
    }
}

impl From<&Literal> for Constant {
    fn from(literal: &Literal) -> Constant {
        match literal {
            Literal::Boolean(value) => Constant::Boolean(*value),
            Literal::Number(number) => Constant::Number(*number),
            Literal::String(text) => Constant::Bytes(text.as_bytes().into()),
        }
    }
}

/// The place just before `at`, or just after it, in the order of values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cut {
    pub(crate) at: Constant,
    pub(crate) after: bool,
}

/// The values of one type from one cut to another; `None` means unbounded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Range {
    pub(crate) kind: Kind,
    pub(crate) low: Option<Cut>,
    pub(crate) high: Option<Cut>,
}

impl Range {
    /// The values above `cut`, or below it.
    pub(crate) fn half(cut: Cut, above: bool) -> Range {
        let kind = cut.at.kind();
        let (low, high) = if above { (Some(cut), None) } else { (None, Some(cut)) };
        Range { kind, low, high }
    }

    /// The values between two cuts of one type.
    pub(crate) fn between(low: Cut, high: Cut) -> Range {
        Range { kind: low.at.kind(), low: Some(low), high: Some(high) }
    }

    /// The strings that begin with `prefix`.
    pub(crate) fn prefix(prefix: &str) -> Range {
        let mut next = prefix.as_bytes().to_vec();
        // No byte of UTF-8 text is 255, so the last byte can be incremented.
        if let Some(last) = next.last_mut() {
            *last += 1;
        }
        let cut = |at: Arc<[u8]>| Some(Cut { at: Constant::Bytes(at), after: false });
        match prefix.is_empty() {
            true => Range { kind: Kind::Bytes, low: None, high: None },
            false => Range {
                kind: Kind::Bytes,
                low: cut(prefix.as_bytes().into()),
                high: cut(next.into()),
            },
        }
    }

    /// Whether no value lies in the range. The cut after a number and the cut before the next number are the same
    /// place.
    pub(crate) fn is_empty(&self) -> bool {
        let (Some(low), Some(high)) = (&self.low, &self.high) else { return false };
        match (&low.at, &high.at) {
            (Constant::Number(a), Constant::Number(b)) => a.cut(low.after) >= b.cut(high.after),
            _ => low >= high,
        }
    }

    pub(crate) fn contains(&self, value: &Constant) -> bool {
        let below = |cut: &Cut| if cut.after { cut.at < *value } else { cut.at <= *value };
        self.low.as_ref().is_none_or(below) && !self.high.as_ref().is_some_and(below)
    }

    /// The intersection with a range of the same type.
    pub(crate) fn intersection(&self, other: &Range) -> Range {
        let low = self.low.as_ref().max(other.low.as_ref()).cloned();
        let high = match (&self.high, &other.high) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        Range { kind: self.kind, low, high }
    }
}
