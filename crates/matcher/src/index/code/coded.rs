//! A conjunction, coded by the dictionary.

use super::column::OTHER8;
use super::dictionary::NARROW_SLOTS;
use super::residual::Residual;

/// A coded conjunction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coded {
    /// Slots and constants of the equalities. The conjunction is filed under some of them.
    pub(crate) equals: Vec<(u32, u32)>,
    pub(crate) rest: Vec<Residual>,
}

impl Coded {
    pub(crate) fn clear(&mut self) {
        self.equals.clear();
        self.rest.clear();
    }
}

/// The residual of an equality, on a byte if its code fits.
pub(crate) fn equality(slot: u32, id: u32) -> Residual {
    match narrow(slot, id) {
        Some((slot, code)) => Residual::Equal { slot, code },
        None => Residual::Wide { slot, low: u64::from(id), width: 0 },
    }
}

/// The slot and number as bytes, if they fit.
pub(crate) fn narrow(slot: u32, id: u32) -> Option<(u8, u8)> {
    let slot = u8::try_from(slot).ok().filter(|slot| usize::from(*slot) < NARROW_SLOTS)?;
    Some((slot, u8::try_from(id).ok().filter(|id| *id < OTHER8)?))
}
