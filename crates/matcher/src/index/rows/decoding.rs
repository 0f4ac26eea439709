//! The inverse of coding: from a row in columns to its conditions.

use super::cluster::{LOOSE, residuals};
use super::location::Location;
use super::snapshot::State;
use crate::index::code::coded::Coded;
use crate::index::code::column::Column;
use crate::index::code::residual::Residual;

impl State {
    /// Writes the conditions of a row of this schema and key to `coded`, with the access predicate among the
    /// equalities.
    pub(crate) fn decode(
        &self,
        schema: u32,
        key: u128,
        rest: impl Iterator<Item = Residual>,
        coded: &mut Coded,
    ) {
        coded.clear();
        coded.equals.extend(self.schemas[schema as usize].equals(key));
        for residual in rest {
            let equality = match residual {
                Residual::Equal { slot, code } => Some((u32::from(slot), u32::from(code))),
                Residual::Wide { slot, low, width: 0 } => Some((slot, low as u32)),
                _ => None,
            };
            let of_constants = |(slot, _): &(u32, u32)| {
                matches!(self.dictionary.slots[*slot as usize], Column::Equal(_))
            };
            match equality.filter(of_constants) {
                Some(equality) => coded.equals.push(equality),
                None => coded.rest.push(residual),
            }
        }
    }

    /// Decodes the row of a subscription at this location; `id` includes its flag. Returns the number of
    /// words examined to find it.
    pub(crate) fn decode_at(&self, id: u32, location: Location, coded: &mut Coded) -> usize {
        let piece = &self.pieces[location.piece()];
        let cluster = &piece.clusters[location.cluster()];
        if location.group() != LOOSE {
            let rest = cluster.groups[location.group()].row(location.row());
            self.decode(piece.schema, cluster.key, rest.into_iter(), coded);
            return 0;
        }
        let found = cluster.records().find(|(other, _)| *other == id);
        let words = found.map_or(&[][..], |(_, words)| words);
        self.decode(piece.schema, cluster.key, residuals(words), coded);
        cluster.loose.len()
    }
}
