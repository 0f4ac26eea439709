//! An event in coded form.

use super::column::{NONE, NULL8, OTHER8};

/// Codes of a byte for the first 64 slots: a cache line, or one wide register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// An event as an index reads it: its values replaced by their places among the constants of the filters.
///
/// It belongs to the [`Snapshot`](crate::Snapshot) that coded it.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) line: Line,
    /// By slot: the number of the constant that the value equals, or none.
    pub(crate) ids: Vec<u32>,
    /// By slot: wide codes; empty where no filter needs any.
    pub(crate) wide: Vec<u64>,
    /// Of the snapshot.
    pub(crate) version: u64,
}

impl Event {
    /// The number of the constant that the value of an equality slot equals, if there is one. Most are in the line, which
    /// is read anyway; only those beyond a byte are looked up.
    #[inline]
    pub(crate) fn number(&self, slot: u32) -> Option<u32> {
        match self.line.0.get(slot as usize) {
            Some(&NULL8) => None,
            Some(code) if *code != OTHER8 => Some(u32::from(*code)),
            _ => Some(self.ids[slot as usize]).filter(|id| *id != NONE),
        }
    }
}
