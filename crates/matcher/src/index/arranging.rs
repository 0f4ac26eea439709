//! Arranging an index anew while it is used: access predicates are chosen again as it grows and as its mix changes, and
//! rows move to where they belong now.
//!
//! It is done in small parts, between which all else goes on: a sample of rows is taken, a schema is chosen a
//! round, and then rows are looked at one by one (`refiling.rs`). What is filed meanwhile goes where it belongs by the new
//! choice, and events find every row at every moment: where it was or where it is. When it is over, schemas that were
//! left are gone. It begins when as much has changed as there was at the last time: so each change pays for a few
//! rows, however large the index is.

use std::sync::Arc;

use super::Index;
use super::advice::Advice;
use super::coding::Coded;
use super::piece::Piece;
use super::refiling::Walk;
use super::schema::Schema;
use super::snapshot::State;

/// How many rows are looked at to choose access predicates.
pub(crate) const SAMPLE: usize = 4096;
/// Fewer changes are not worth it.
pub(crate) const FEWEST: usize = 64;

/// How far it is.
#[derive(Debug, Default)]
pub(crate) enum Arranging {
    #[default]
    Not,
    /// So many rows have been asked for.
    Sampling(usize, Advice),
    Choosing(Advice),
    Filing(Walk),
}

impl Index {
    /// Files all subscriptions under the access predicates that are best for what is there now.
    ///
    /// It takes about as long as inserting them all again, one to two seconds for a million; snapshots
    /// that are held meanwhile keep what they have. Where nobody can wait for it, [`adapt_some`](Self::adapt_some).
    pub fn adapt(&mut self) {
        while !matches!(self.arranging, Arranging::Not) {
            self.arrange(usize::MAX);
        }
        self.begin();
        while !matches!(self.arranging, Arranging::Not) {
            self.arrange(usize::MAX);
        }
    }

    /// The same in parts: looks at about `most` subscriptions, which takes about a microsecond for each, and returns
    /// whether it is to go on. It begins by itself, when as many have been inserted and removed as there were at the last
    /// time; before that nothing is done. Who calls it with 8 after each change and with some hundred
    /// where there is time has an index that fits what is in it, and never stops for long.
    ///
    /// Between two calls everything can be done with the index. Events must be coded anew, as after any change.
    ///
    /// ```
    /// use phalanx_matcher::{Filter, Index, Options};
    ///
    /// let mut index = Index::new(Options::default());
    /// for n in 0..5_000 {
    ///     index.insert(&Filter::parse(&format!("kind = {} AND room = {}", n % 7, n % 90))?);
    ///     index.adapt_some(8);
    /// }
    /// assert!(index.shape().multiple > 0, "both attributes at once, as there are many now");
    /// # Ok::<(), phalanx_matcher::FilterError>(())
    /// ```
    pub fn adapt_some(&mut self, most: usize) -> bool {
        if matches!(self.arranging, Arranging::Not) {
            if self.changes < self.due {
                return false;
            }
            self.begin();
        }
        self.arrange(most);
        !matches!(self.arranging, Arranging::Not)
    }

    fn begin(&mut self) {
        self.is_arranged();
        let many = self.rows.max(self.options.expected);
        self.arranging = Arranging::Sampling(0, Advice::new(many, self.options.multiple));
    }

    /// What is there now is what the access predicates are, or are to be, chosen for.
    pub(crate) fn is_arranged(&mut self) {
        (self.changes, self.due) = (0, self.rows.max(FEWEST));
    }

    /// Goes on with it, for about so many rows.
    fn arrange(&mut self, most: usize) {
        let mut left = most;
        while left > 0 {
            let taken = match std::mem::take(&mut self.arranging) {
                Arranging::Not => return,
                Arranging::Sampling(from, advice) => self.sample(from, advice),
                Arranging::Choosing(mut advice) => {
                    // A choice is looked at in a few nanoseconds, a row in some hundred.
                    let taken = 1 + advice.size() / 256;
                    match advice.choose_one() {
                        true => self.arranging = Arranging::Choosing(advice),
                        false => self.file_under(advice.chosen()),
                    }
                    taken
                }
                Arranging::Filing(mut walk) => {
                    let (taken, is_done) = self.refile(&mut walk, left);
                    match is_done {
                        true => self.end(walk),
                        false => self.arranging = Arranging::Filing(walk),
                    }
                    taken
                }
            };
            left = left.saturating_sub(taken);
        }
    }

    /// Adds a row to the sample. Returns how much work that was.
    fn sample(&mut self, from: usize, mut advice: Advice) -> usize {
        let numbers = self.locations.len();
        if from == numbers.min(SAMPLE) || advice.is_full() {
            self.arranging = Arranging::Choosing(advice);
            return 1;
        }
        // Spread evenly over all, however early it ends.
        let spread = (from as u32).wrapping_mul(0x9E37_79B9);
        let id = match numbers > SAMPLE {
            true => ((u64::from(spread) * numbers as u64) >> 32) as u32,
            false => from as u32,
        };
        let mut looked_at = 0;
        if self.locations.is_live(id)
            && let Some((flagged, location)) = self.locations.some(id)
        {
            let mut coded = Coded::default();
            looked_at = self.state().decode_at(flagged, location, &mut coded);
            advice.offer(&coded, &self.statistics);
        }
        self.arranging = Arranging::Sampling(from + 1, advice);
        4 + looked_at / 256
    }

    /// These are the schemas from now on, and others are to be left.
    fn file_under(&mut self, chosen: Vec<Vec<u32>>) {
        let state = self.state_mut();
        let (mut is_same, mut fresh) = (true, Vec::new());
        for schema in 1..state.schemas.len() {
            let own = &state.schemas[schema];
            if !own.is_retired && !chosen.contains(&own.slots) {
                is_same = false;
                state.retire(schema);
            }
        }
        for slots in chosen {
            if !state.schemas.iter().any(|schema| !schema.is_retired && schema.slots == slots) {
                is_same = false;
                let known = |schema: &Arc<Schema>| !schema.is_gone() && schema.slots == slots;
                let was_there = state.schemas.iter().any(known);
                let schema = state.add_schema(slots);
                if !was_there {
                    fresh.push(schema as u32);
                }
            }
        }
        if !is_same {
            // Pieces that come now are looked at in their turn, so they are behind all others.
            let free = std::mem::take(&mut state.free_pieces);
            self.arranging = Arranging::Filing(Walk::new(fresh, free));
        }
    }

    /// All rows have been looked at: what is empty goes.
    fn end(&mut self, walk: Walk) {
        let state = self.state_mut();
        state.free_pieces = walk.into_free();
        for schema in 1..state.schemas.len() {
            state.drop_if_empty(schema);
        }
    }
}

impl State {
    /// A schema is to be left: nothing more is filed under it.
    fn retire(&mut self, at: usize) {
        let schema = Arc::make_mut(&mut self.schemas[at]);
        schema.is_retired = true;
        match *schema.slots.as_slice() {
            [slot] => self.single[slot as usize] = None,
            _ => self.multiple.retain(|other| *other as usize != at),
        }
    }

    fn drop_if_empty(&mut self, at: usize) {
        let schema = &self.schemas[at];
        let pieces = || schema.buckets.iter().flat_map(|bucket| &bucket.pieces);
        let is_empty = |piece: &u32| self.pieces[*piece as usize].is_empty();
        if schema.is_gone() || !pieces().all(is_empty) {
            return;
        }
        let pieces: Vec<u32> = pieces().copied().collect();
        if !schema.is_retired {
            self.retire(at);
        }
        for piece in &pieces {
            self.pieces[*piece as usize] = Arc::new(Piece::new(0));
        }
        self.free_pieces.extend(pieces);
        self.schemas[at] = Arc::new(Schema::gone());
        self.free_schemas.push(at as u32);
    }
}
