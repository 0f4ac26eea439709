//! Coded events.

use std::collections::HashMap;

use super::column::{NONE, NULL, NULL8, OTHER8};
use super::hashing::BuildMixHasher;

/// Byte codes of the first 64 slots: one cache line, or one vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// Number of slots whose wide codes an event holds in tables. Of the other slots, an event holds only those of its own
/// attributes, so that its size does not depend on how many attributes the filters name.
pub(crate) const TABLED_SLOTS: usize = 512;

/// An event in the form that the index reads: each value is replaced by its position among the constants of
/// the filters.
///
/// It is valid for the [`Snapshot`](crate::Snapshot) that coded it.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) line: Line,
    /// By slot: the number of the constant that equals the value, or `NONE`.
    ids: Vec<u32>,
    /// By slot: wide codes; empty if no filter needs any.
    wide: Vec<u64>,
    /// The number and the wide code of slots beyond the tables.
    untabled: HashMap<u32, (u32, u64), BuildMixHasher>,
    /// Version of the snapshot.
    pub(crate) version: u64,
}

impl Event {
    /// An event without attributes, for this number of slots.
    pub(crate) fn blank(line: Line, slots: usize, is_wide: bool, version: u64) -> Event {
        let tabled = slots.min(TABLED_SLOTS);
        let wide = if is_wide { vec![NULL; tabled] } else { Vec::new() };
        Event { line, ids: vec![NONE; tabled], wide, untabled: HashMap::default(), version }
    }

    /// Sets the codes of a slot: as a byte, as the number of an equal constant, and as a word.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, narrow: u8, id: u32, wide: u64) {
        let at = slot as usize;
        let Some(place) = self.ids.get_mut(at) else {
            self.untabled.insert(slot, (id, wide));
            return;
        };
        *place = id;
        if let Some(code) = self.line.0.get_mut(at) {
            *code = narrow;
        }
        if let Some(code) = self.wide.get_mut(at) {
            *code = wide;
        }
    }

    /// The number of the constant that equals the value of an equality slot, if any. Most numbers are in the
    /// line, which matching reads anyway; only numbers beyond a byte need the lookup.
    #[inline]
    pub(crate) fn number(&self, slot: u32) -> Option<u32> {
        match self.line.0.get(slot as usize) {
            Some(&NULL8) => None,
            Some(code) if *code != OTHER8 => Some(u32::from(*code)),
            _ => match self.ids.get(slot as usize) {
                Some(id) => Some(*id),
                None => self.untabled(slot).map(|(id, _)| id),
            }
            .filter(|id| *id != NONE),
        }
    }

    /// The wide code of a slot.
    #[inline]
    pub(crate) fn wide(&self, slot: u32) -> u64 {
        match self.wide.get(slot as usize) {
            Some(code) => *code,
            None => self.untabled(slot).map_or(NULL, |(_, wide)| wide),
        }
    }

    #[cold]
    fn untabled(&self, slot: u32) -> Option<(u32, u64)> {
        self.untabled.get(&slot).copied()
    }
}
