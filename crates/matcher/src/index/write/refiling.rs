//! A walk over all rows that moves each row to its best schema.
//!
//! The walk visits pieces in ascending order, because new pieces are appended, and the clusters and rows of a
//! piece in descending order, because removals and insertions change only the part already visited. A row
//! that another change moves across the walk's position may be skipped or visited twice.

use std::sync::Arc;

use super::index::Index;
use super::walk::{Inside, Walk};
use crate::index::code::coded::Coded;
use crate::index::rows::cluster::{LOOSE, residuals};
use crate::index::rows::location::Location;
use crate::index::rows::piece::Piece;

/// Number of loose rows examined together; each removal moves the remaining ones up.
const LOOSE_BATCH: usize = 64;

impl Index {
    /// Examines about `max_rows` rows and moves those that belong elsewhere. Returns the number of rows examined,
    /// and whether the walk is over.
    pub(crate) fn refile(&mut self, walk: &mut Walk, max_rows: usize) -> (usize, bool) {
        let mut removed = 0;
        while removed < max_rows {
            let Some(piece) = self.state().pieces.get(walk.piece) else { return (removed, true) };
            // Skipping a piece also takes time.
            let Some(clusters) = walk.clusters else {
                removed += 1;
                match walk.fresh.contains(&piece.schema) || piece.clusters.is_empty() {
                    true => walk.piece += 1,
                    false => walk.clusters = Some(piece.clusters.len()),
                }
                continue;
            };
            let clusters = clusters.min(piece.clusters.len());
            let Some(last) = clusters.checked_sub(1) else {
                removed += 1;
                self.leave(walk.piece);
                (walk.piece, walk.clusters) = (walk.piece + 1, None);
                continue;
            };
            walk.clusters = Some(clusters);
            let cluster = &piece.clusters[last];
            let mut inside = walk.inside.unwrap_or_else(|| Inside::of(cluster));
            inside.groups = inside.groups.min(cluster.groups.len());
            walk.inside = Some(inside);
            if let Some(group) = inside.groups.checked_sub(1) {
                let rows = inside.rows.min(cluster.groups[group].ids.len());
                match rows.checked_sub(1) {
                    Some(row) => self.look_at_row((walk.piece, last, group, row)),
                    None => inside.groups = group,
                }
                inside.rows = rows.checked_sub(1).unwrap_or(usize::MAX);
                walk.inside = Some(inside);
                removed += 1;
            } else if inside.loose > 0 {
                let count = inside.loose.min(LOOSE_BATCH);
                self.look_at_loose((walk.piece, last), count);
                inside.loose -= count;
                walk.inside = Some(inside);
                removed += count;
            } else {
                (walk.clusters, walk.inside) = (Some(last), None);
                removed += 1;
            }
        }
        (removed, false)
    }

    /// Examines a row in columns. The row that replaces it after a removal was examined before.
    fn look_at_row(&mut self, (at, cluster, group, row): (usize, usize, usize, usize)) {
        let mut coded = std::mem::take(&mut self.coded);
        let state = self.state();
        let piece = &state.pieces[at];
        let inside = &piece.clusters[cluster];
        let id = inside.groups[group].ids[row];
        let rest = inside.groups[group].row(row);
        state.decode(piece.schema, inside.key, rest.into_iter(), &mut coded);
        let (here, there) = (piece.schema as usize, self.best_schema(&coded.equals).schema);
        if there != here {
            let own = Location::new(at, cluster, group, row);
            self.take_row(own);
            self.file(there, id, &coded, Some(own));
        }
        self.coded = coded;
    }

    /// Examines the first loose rows of a cluster; the rows that stay become its last.
    fn look_at_loose(&mut self, (at, cluster): (usize, usize), count: usize) {
        let state = self.state();
        let piece = &state.pieces[at];
        let (here, inside) = (piece.schema as usize, &piece.clusters[cluster]);
        let (mut stay, mut leave, mut end) = (Vec::new(), Vec::new(), 0);
        for (id, words) in inside.records().take(count) {
            let mut coded = Coded::default();
            state.decode(piece.schema, inside.key, residuals(words), &mut coded);
            let there = self.best_schema(&coded.equals).schema;
            if there == here {
                stay.extend([id, words.len() as u32]);
                stay.extend(words);
            } else {
                leave.push((id, there, coded));
            }
            end += 2 + words.len();
        }
        if leave.is_empty() && end == inside.loose.len() {
            return;
        }
        let piece = Arc::make_mut(&mut self.state_mut().pieces[at]);
        piece.change(cluster, |inside| {
            inside.loose.drain(..end);
            inside.loose.extend(stay);
        });
        for (id, there, coded) in leave {
            self.file(there, id, &coded, Some(Location::new(at, cluster, LOOSE, 0)));
        }
    }

    /// Ends the visit of a piece, and frees its memory if its rows had to leave.
    fn leave(&mut self, at: usize) {
        let state = self.state();
        let piece = &state.pieces[at];
        if state.schemas[piece.schema as usize].is_retired && piece.is_empty() {
            let empty = Arc::new(Piece::new(piece.schema));
            self.state_mut().pieces[at] = empty;
        }
    }
}
