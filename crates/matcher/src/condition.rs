//! Plain conditions on one attribute, and their conjunctions.

use crate::constant::{Constant, Range};

/// A condition that occurs in one or more conjunctions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Condition {
    /// The number of the attribute's name in the filter.
    pub(crate) name: u16,
    pub(crate) plain: Plain,
}

/// A condition on one attribute. A missing attribute satisfies `Present(false)` only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Plain {
    Present(bool),
    Equal(Constant),
    Differs(Constant),
    Inside(Range),
    /// The value has the range's type and lies outside the range, which is bounded on both sides and not empty.
    Outside(Range),
}

/// Alternative conjunctions. A short filter may have 256 conjunctions of 64 conditions, and most conditions occur in
/// many conjunctions. So each condition is stored once, and a conjunction refers to it with two bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Alternatives {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) conditions: Vec<Condition>,
    /// Indices of conditions.
    pub(crate) conjunctions: Vec<Box<[u16]>>,
}

/// Conditions that must all hold. An empty conjunction always holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conjunction<'a> {
    of: &'a Alternatives,
    conditions: &'a [u16],
}

impl Alternatives {
    pub(crate) fn len(&self) -> usize {
        self.conjunctions.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Conjunction<'_>> {
        self.conjunctions.iter().map(|conditions| Conjunction { of: self, conditions })
    }

    /// The conditions with the names of their attributes, each once.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&str, &Plain)> {
        self.conditions.iter().map(|condition| self.named(condition))
    }

    fn named<'a>(&'a self, condition: &'a Condition) -> (&'a str, &'a Plain) {
        (&self.names[usize::from(condition.name)], &condition.plain)
    }
}

impl<'a> Conjunction<'a> {
    /// The conditions with the names of their attributes.
    pub(crate) fn conditions(self) -> impl Iterator<Item = (&'a str, &'a Plain)> {
        let at = |at: &u16| self.of.named(&self.of.conditions[usize::from(*at)]);
        self.conditions.iter().map(at)
    }
}

impl Range {
    /// The condition for values of the type outside the range; `None` if no value satisfies it.
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
