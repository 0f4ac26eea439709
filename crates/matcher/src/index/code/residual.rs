//! A residual: one coded condition, satisfied if a slot's code lies in an interval of codes that may wrap
//! around.
//!
//! Intervals express all conditions. Equality is an interval of one code. Inequality and `NOT BETWEEN` take two
//! intervals: the complement of the excluded interval, and one that excludes the code of a missing value.

use super::coded::narrow;
use super::column::{NULL, NULL8};
use super::event::Event;

/// A condition that is checked on each event that touches the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residual {
    /// On a byte of an equality slot; its width stays zero.
    Equal { slot: u8, code: u8 },
    /// On a byte: `code - low <= width`, wrapping.
    Range { slot: u8, low: u8, width: u8 },
    /// On a word: `code - low <= width`, wrapping.
    Wide { slot: u32, low: u64, width: u64 },
}

/// Satisfied by any value, on a byte: every code except that of a missing value.
pub(crate) fn known8(slot: u8) -> Residual {
    Residual::Range { slot, low: 0, width: NULL8 - 1 }
}

/// Satisfied by any value, on a word.
pub(crate) fn known(slot: u32) -> Residual {
    Residual::Wide { slot, low: 0, width: NULL - 1 }
}

/// Satisfied if an attribute is present, or missing. An event has the code of a missing value on a word, and 0 on a
/// byte.
pub(crate) fn presence(slot: u32, present: bool) -> Residual {
    match narrow(slot, u32::from(present)) {
        Some((slot, code)) => Residual::Equal { slot, code },
        None => Residual::Wide { slot, low: if present { 1 } else { NULL }, width: 0 },
    }
}

/// From label `low` up to, but not including, label `high`, on a byte.
pub(crate) fn range8(slot: u8, low: u8, high: u8) -> Residual {
    Residual::Range { slot, low, width: high.wrapping_sub(low).wrapping_sub(1) }
}

/// From label `low` up to, but not including, label `high`, on a word.
pub(crate) fn range(slot: u32, low: u64, high: u64) -> Residual {
    Residual::Wide { slot, low, width: high.wrapping_sub(low).wrapping_sub(1) }
}

impl Residual {
    /// Whether an event satisfies the condition.
    #[inline]
    pub(crate) fn holds(self, event: &Event) -> bool {
        let line = &event.line.0;
        match self {
            Residual::Equal { slot, code } => line[usize::from(slot)] == code,
            Residual::Range { slot, low, width } => {
                line[usize::from(slot)].wrapping_sub(low) <= width
            }
            Residual::Wide { slot, low, width } => event.wide(slot).wrapping_sub(low) <= width,
        }
    }

    /// The number of words that it occupies in a loose record.
    pub(crate) fn words(self) -> usize {
        if matches!(self, Residual::Wide { .. }) { 5 } else { 1 }
    }

    /// Appends its words.
    pub(crate) fn write(self, out: &mut Vec<u32>) {
        let small = |tag: u32, slot: u8, low: u8, width: u8| {
            tag << 30 | u32::from(slot) | u32::from(low) << 8 | u32::from(width) << 16
        };
        match self {
            Residual::Equal { slot, code } => out.push(small(0, slot, code, 0)),
            Residual::Range { slot, low, width } => out.push(small(1, slot, low, width)),
            Residual::Wide { slot, low, width } => out.extend([
                2 << 30 | slot,
                low as u32,
                (low >> 32) as u32,
                width as u32,
                (width >> 32) as u32,
            ]),
        }
    }

    /// Reads a condition and returns the number of words read.
    pub(crate) fn read(words: &[u32]) -> (Residual, usize) {
        let word = words[0];
        let byte = |shift: u32| (word >> shift) as u8;
        let long = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        let residual = match word >> 30 {
            0 => Residual::Equal { slot: byte(0), code: byte(8) },
            1 => Residual::Range { slot: byte(0), low: byte(8), width: byte(16) },
            _ => Residual::Wide { slot: word & 0x3FFF_FFFF, low: long(1), width: long(3) },
        };
        (residual, residual.words())
    }
}
