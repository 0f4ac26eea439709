//! The codes of constants that a condition names, so that their uses can be counted.

use super::column::{Column, NULL, NULL8};
use super::residual::Residual;

/// The code of a constant in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The number of a constant of an equality slot.
    Id(u32),
    /// The labels of a cut of an order slot.
    Narrow(u8),
    Wide(u64),
}

impl Residual {
    pub(crate) fn slot(self) -> u32 {
        match self {
            Residual::Equal { slot, .. } | Residual::Range { slot, .. } => u32::from(slot),
            Residual::Wide { slot, .. } => slot,
        }
    }

    /// The constants that the condition names. Equalities are not residuals here: a [coded](super::coded::Coded)
    /// conjunction lists them separately.
    pub(crate) fn codes(self, column: &Column) -> [Option<Code>; 2] {
        match (column, self) {
            // The interval of an inequality begins after the one number that it excludes. The condition that there is a
            // value begins at 0.
            (Column::Equal(_), Residual::Range { low, .. }) => {
                [low.checked_sub(1).map(|id| Code::Id(id.into())), None]
            }
            (Column::Equal(_), Residual::Wide { low, .. }) => {
                [low.checked_sub(1).map(|id| Code::Id(id as u32)), None]
            }
            // The ends of an interval are labels, or the bounds of the codes of values.
            (Column::Order(_), Residual::Range { low, width, .. }) => {
                let label =
                    |label: u8| (label != 0 && label != NULL8).then_some(Code::Narrow(label));
                [label(low), label(low.wrapping_add(width).wrapping_add(1))]
            }
            (Column::Order(_), Residual::Wide { low, width, .. }) => {
                let label = |label: u64| (label != 0 && label != NULL).then_some(Code::Wide(label));
                [label(low), label(low.wrapping_add(width).wrapping_add(1))]
            }
            _ => [None, None],
        }
    }
}
