//! Plain conditions on one attribute, and their conjunctions.

use crate::constant::{Constant, Range};

/// Conditions that must all hold; without conditions it always holds.
pub(crate) type Conjunction = Vec<Condition>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    pub(crate) name: Box<str>,
    pub(crate) plain: Plain,
}

/// A condition on one attribute. A missing attribute satisfies `Present(false)` only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plain {
    Present(bool),
    Equal(Constant),
    Differs(Constant),
    Inside(Range),
    /// Has the range's type and lies outside the range, which is bounded on both sides and not empty.
    Outside(Range),
}

impl Range {
    /// The values of the type outside the range; `None` if there are none.
    pub(crate) fn outside(self) -> Option<Plain> {
        if self.is_empty() {
            return Some(Plain::Inside(Range { kind: self.kind, low: None, high: None }));
        }
        match (&self.low, &self.high) {
            (None, None) => None,
            (None, Some(_)) => Some(Plain::Inside(Range { low: self.high, high: None, ..self })),
            (Some(_), None) => Some(Plain::Inside(Range { high: self.low, low: None, ..self })),
            (Some(_), Some(_)) => Some(Plain::Outside(self)),
        }
    }
}
