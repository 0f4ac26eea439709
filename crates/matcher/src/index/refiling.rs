//! Looking at rows one by one, to move those that belong elsewhere.
//!
//! A walk goes over the pieces forward, as new ones come behind; and inside of one over clusters and rows backward, as what
//! is taken out or comes meanwhile changes only what has been looked at. Where others' changes move a row out of its way,
//! it is not looked at this time, or twice.

use std::sync::Arc;

use super::Index;
use super::cluster::{Cluster, LOOSE, residuals};
use super::coding::Coded;
use super::location::Location;
use super::piece::Piece;

/// Loose rows of a cluster that are looked at together: each time the others move up.
const TOGETHER: usize = 64;

/// Where the walk is, and what it is to pass over.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Schemas that are new: what is there belongs there.
    fresh: Vec<u32>,
    /// Numbers of pieces that are gone, which are not given again meanwhile.
    free: Vec<u32>,
    piece: usize,
    /// Its clusters that are left; none: it was not begun.
    clusters: Option<usize>,
    inside: Option<Inside>,
}

/// What is left in the last of these clusters.
#[derive(Clone, Copy, Debug)]
struct Inside {
    groups: usize,
    /// Of the last of these.
    rows: usize,
    loose: usize,
}

impl Walk {
    pub(crate) fn new(fresh: Vec<u32>, free: Vec<u32>) -> Walk {
        Walk { fresh, free, piece: 0, clusters: None, inside: None }
    }

    pub(crate) fn into_free(self) -> Vec<u32> {
        self.free
    }
}

impl Inside {
    fn of(cluster: &Cluster) -> Inside {
        let groups = cluster.groups.len();
        let loose = cluster.records().count();
        Inside { groups, rows: usize::MAX, loose }
    }
}

impl Index {
    /// Looks at about `most` rows, and moves those that belong elsewhere. Returns how many it was, and whether it
    /// was the last.
    pub(crate) fn refile(&mut self, walk: &mut Walk, most: usize) -> (usize, bool) {
        let mut taken = 0;
        while taken < most {
            let Some(piece) = self.state().pieces.get(walk.piece) else { return (taken, true) };
            // What is passed over costs, too.
            let Some(clusters) = walk.clusters else {
                taken += 1;
                match walk.fresh.contains(&piece.schema) || piece.clusters.is_empty() {
                    true => walk.piece += 1,
                    false => walk.clusters = Some(piece.clusters.len()),
                }
                continue;
            };
            let clusters = clusters.min(piece.clusters.len());
            let Some(last) = clusters.checked_sub(1) else {
                taken += 1;
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
                taken += 1;
            } else if inside.loose > 0 {
                let count = inside.loose.min(TOGETHER);
                self.look_at_loose((walk.piece, last), count);
                inside.loose -= count;
                walk.inside = Some(inside);
                taken += count;
            } else {
                (walk.clusters, walk.inside) = (Some(last), None);
                taken += 1;
            }
        }
        (taken, false)
    }

    /// A row in columns. What was behind it has been looked at, so the one that takes its place has been.
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

    /// The first loose rows of a cluster; those that stay are its last then.
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

    /// Nothing is left to look at in a piece: if it is to be left, its memory goes.
    fn leave(&mut self, at: usize) {
        let state = self.state();
        let piece = &state.pieces[at];
        if state.schemas[piece.schema as usize].is_retired && piece.is_empty() {
            let empty = Arc::new(Piece::new(piece.schema));
            self.state_mut().pieces[at] = empty;
        }
    }
}
