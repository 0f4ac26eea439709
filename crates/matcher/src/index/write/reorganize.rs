//! Reorganization of an index in use: chooses access predicates again as the index grows and its mix changes,
//! and moves rows to them.
//!
//! The work is done in small steps between other calls: sample some rows, choose one schema per round, then examine the
//! rows one by one (`refiling.rs`). Rows that arrive in the meantime are filed under the new choice. At any time,
//! events find every row, at its old or its new location. At the end, abandoned schemas are dropped. A reorganization
//! starts when the number of changes reaches the number of rows at the last one, so each change pays for a few rows,
//! whatever the size of the index.

use std::sync::Arc;

use super::advice::Advice;
use super::index::Index;
use super::progress::{MIN_CHANGES, Reorganization, SAMPLE};
use super::walk::Walk;
use crate::index::code::coded::Coded;
use crate::index::rows::piece::Piece;
use crate::index::rows::schema::Schema;
use crate::index::rows::snapshot::State;

impl Index {
    /// Files all subscriptions under the access predicates that suit the current contents best.
    ///
    /// This takes about as long as inserting all of them again, one to two seconds for a million. Existing snapshots do
    /// not change. If the caller cannot block for that long, use [`adapt_some`](Self::adapt_some).
    pub fn adapt(&mut self) {
        while !matches!(self.reorganization, Reorganization::Not) {
            self.arrange(usize::MAX);
        }
        self.begin();
        while !matches!(self.reorganization, Reorganization::Not) {
            self.arrange(usize::MAX);
        }
        self.free_slots();
    }

    /// Incremental [`adapt`](Self::adapt): examines about `max_rows` subscriptions, at about a microsecond each, and
    /// returns whether work remains. A reorganization starts when as many subscriptions have been inserted and removed
    /// as existed at the last one; until then the call does nothing. To adapt the index to its contents without a long
    /// pause, call this with 8 after each change, and with a few hundred while idle.
    ///
    /// All other operations are allowed between two calls. Events must be coded again, as after any change.
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
    pub fn adapt_some(&mut self, max_rows: usize) -> bool {
        if matches!(self.reorganization, Reorganization::Not) {
            if self.changes < self.due {
                return false;
            }
            self.begin();
        }
        self.arrange(max_rows);
        self.free_slots();
        !matches!(self.reorganization, Reorganization::Not)
    }

    fn begin(&mut self) {
        self.mark_arranged();
        let many = self.rows.max(self.options.expected);
        self.reorganization = Reorganization::Sampling(0, Advice::new(many, self.options.multiple));
    }

    /// Records that the access predicates are, or will be, chosen for the current contents.
    pub(crate) fn mark_arranged(&mut self) {
        (self.changes, self.due) = (0, self.rows.max(MIN_CHANGES));
    }

    /// Continues the reorganization for about `max_rows` rows.
    fn arrange(&mut self, max_rows: usize) {
        let mut remaining = max_rows;
        while remaining > 0 {
            let taken = match std::mem::take(&mut self.reorganization) {
                Reorganization::Not => return,
                Reorganization::Sampling(from, advice) => self.sample(from, advice),
                Reorganization::Choosing(mut advice) => {
                    // Examining a choice takes a few nanoseconds, examining a row a few hundred.
                    let taken = 1 + advice.size() / 256;
                    match advice.choose_one() {
                        true => self.reorganization = Reorganization::Choosing(advice),
                        false => self.file_under(advice.chosen()),
                    }
                    taken
                }
                Reorganization::Refiling(mut walk) => {
                    let (taken, is_done) = self.refile(&mut walk, remaining);
                    match is_done {
                        true => self.end(walk),
                        false => self.reorganization = Reorganization::Refiling(walk),
                    }
                    taken
                }
            };
            remaining = remaining.saturating_sub(taken);
        }
    }

    /// Adds a row to the sample. Returns the work done, in rows.
    fn sample(&mut self, from: usize, mut advice: Advice) -> usize {
        let numbers = self.locations.len();
        if from == numbers.min(SAMPLE) || advice.is_full() {
            self.reorganization = Reorganization::Choosing(advice);
            return 1;
        }
        // Spreads the sample evenly over all rows, even if it ends early.
        let spread = (from as u32).wrapping_mul(0x9E37_79B9);
        let id = match numbers > SAMPLE {
            true => ((u64::from(spread) * numbers as u64) >> 32) as u32,
            false => from as u32,
        };
        let mut examined = 0;
        if self.locations.is_live(id)
            && let Some((flagged, location)) = self.locations.some(id)
        {
            let mut coded = Coded::default();
            examined = self.state().decode_at(flagged, location, &mut coded);
            advice.offer(&coded, &self.statistics);
        }
        self.reorganization = Reorganization::Sampling(from + 1, advice);
        4 + examined / 256
    }

    /// Makes these the only active schemas, and retires the others.
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
                let known = |schema: &Arc<Schema>| !schema.is_dropped() && schema.slots == slots;
                let existed = state.schemas.iter().any(known);
                let schema = state.add_schema(slots);
                if !existed {
                    fresh.push(schema as u32);
                }
            }
        }
        if !is_same {
            // New pieces get the highest numbers, so the walk still reaches them.
            let free = std::mem::take(&mut state.free_pieces);
            self.reorganization = Reorganization::Refiling(Walk::new(fresh, free));
        }
    }

    /// Drops empty schemas after all rows were examined.
    fn end(&mut self, walk: Walk) {
        let state = self.state_mut();
        state.free_pieces = walk.into_free();
        for schema in 1..state.schemas.len() {
            state.drop_if_empty(schema);
        }
    }
}

impl State {
    /// Retires a schema: no row is filed under it any more.
    fn retire(&mut self, at: usize) {
        let schema = Arc::make_mut(&mut self.schemas[at]);
        schema.is_retired = true;
        match *schema.slots.as_slice() {
            [slot] => self.single[slot as usize] = None,
            _ => self.multiple.retain(|other| *other as usize != at),
        }
    }

    /// Drops the schemas that contain a slot without uses, which have no rows.
    pub(crate) fn drop_schemas_with(&mut self, slot: u32) {
        for at in 1..self.schemas.len() {
            if self.schemas[at].slots.contains(&slot) {
                self.drop_if_empty(at);
            }
        }
    }

    fn drop_if_empty(&mut self, at: usize) {
        let schema = &self.schemas[at];
        let pieces = || schema.buckets.iter().flat_map(|bucket| &bucket.pieces);
        let is_empty = |piece: &u32| self.pieces[*piece as usize].is_empty();
        if schema.is_dropped() || !pieces().all(is_empty) {
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
        self.schemas[at] = Arc::new(Schema::dropped());
        self.free_schemas.push(at as u32);
    }
}
