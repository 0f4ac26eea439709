//! Coded events.

use super::column::{NONE, NULL8, OTHER8};

/// Byte codes of the first 64 slots: one cache line, or one wide register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// An event in the form that the index reads: each value is replaced by its position among the constants of
/// the filters.
///
/// It is valid for the [`Snapshot`](crate::Snapshot) that coded it.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) line: Line,
    /// By slot: the number of the constant that equals the value, or `NONE`.
    pub(crate) ids: Vec<u32>,
    /// By slot: wide codes; empty if no filter needs any.
    pub(crate) wide: Vec<u64>,
    /// Version of the snapshot.
    pub(crate) version: u64,
}

impl Event {
    /// The number of the constant that equals the value of an equality slot, if any. Most numbers are in the
    /// line, which matching reads anyway; only numbers beyond a byte need the lookup.
    #[inline]
    pub(crate) fn number(&self, slot: u32) -> Option<u32> {
        match self.line.0.get(slot as usize) {
            Some(&NULL8) => None,
            Some(code) if *code != OTHER8 => Some(u32::from(*code)),
            _ => Some(self.ids[slot as usize]).filter(|id| *id != NONE),
        }
    }
}
