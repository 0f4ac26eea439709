//! Placement: filing rows under access predicates, and removing them.

use std::sync::Arc;

use super::advice::Advice;
use super::index::Index;
use crate::index::code::coded::{Coded, equality};
use crate::index::code::hashing::mix;
use crate::index::code::residual::Residual;
use crate::index::rows::cluster::LOOSE;
use crate::index::rows::location::{Location, Locations};
use crate::index::rows::piece::{LIMIT, Piece};
use crate::index::rows::schema::{Bucket, MAX_DEPTH, MAX_SLOTS, Schema};
use crate::index::rows::snapshot::State;

/// Maximum likelihood under a new schema for one attribute, as a fraction of that under the best existing one.
const MAX_LIKELIHOOD_RATIO: f64 = 0.5;
/// Number of schemas from which on none is added for a single attribute, because every event pays for each schema.
const MAX_SCHEMAS: usize = 128;

/// The best schema for a row.
pub(crate) struct Best {
    pub(crate) schema: usize,
    likelihood: f64,
    /// The most selective slot without a schema, and the upper estimate of the likelihood that an event would find the
    /// row there.
    missing: (f64, Option<u32>),
}

impl Index {
    /// Files a row; `id` includes its flag. Its slots and constants are counted until it is removed.
    pub(crate) fn place(&mut self, id: u32, coded: &Coded) {
        self.statistics.count(coded, &self.now.0.dictionary);
        let schema = self.schema_for(&coded.equals);
        self.file(schema, id, coded, None);
        self.rows += 1;
        self.changes += 1;
    }

    /// Files a row under a schema; `from` is its previous location, if any.
    pub(crate) fn file(&mut self, schema: usize, id: u32, coded: &Coded, from: Option<Location>) {
        let state = self.state_mut();
        let slots = &state.schemas[schema].slots;
        let rest: Vec<Residual> = coded
            .equals
            .iter()
            .filter(|(slot, _)| !slots.contains(slot))
            .map(|(slot, constant)| equality(*slot, *constant))
            .chain(coded.rest.iter().copied())
            .collect();
        if rest.iter().any(|residual| matches!(residual, Residual::Wide { .. }))
            && !state.dictionary.wide
        {
            Arc::make_mut(&mut state.dictionary).wide = true;
        }
        let key = state.schemas[schema].key_of(&coded.equals).unwrap_or(0);
        self.put((schema, key), id, &rest, from);
    }

    fn put(
        &mut self,
        (schema, key): (usize, u128),
        id: u32,
        rest: &[Residual],
        from: Option<Location>,
    ) {
        let (state, locations) = self.parts();
        let bucket = state.schemas[schema].bucket(key);
        let at = *state.schemas[schema].buckets[bucket].pieces.last().unwrap_or(&0) as usize;
        let piece = Arc::make_mut(&mut state.pieces[at]);
        let cluster = piece.cluster(key);
        let old = Location::new(at, cluster, LOOSE, 0);
        let spot = piece.change(cluster, |inside| {
            inside.insert(id, rest, |moved, spot| {
                locations.relocate(moved, old, Location::new(at, cluster, spot.group, spot.row));
            })
        });
        let own = Location::new(at, cluster, spot.group, spot.row);
        match from {
            Some(from) => locations.relocate(id, from, own),
            None => locations.add(id, own),
        }
        if piece.bytes > LIMIT {
            state.split(schema, bucket, locations);
        }
    }

    /// Removes all rows of a subscription.
    pub(crate) fn remove_rows(&mut self, id: u32) {
        while let Some((flagged, location)) = self.locations.some(id) {
            let mut coded = std::mem::take(&mut self.coded);
            self.state().decode_at(flagged, location, &mut coded);
            self.locations.forget(id);
            self.rows -= 1;
            self.changes += 1;
            match location.group() {
                LOOSE => self.take_loose(flagged, location),
                _ => self.take_row(location),
            }
            self.release(&coded);
            self.coded = coded;
        }
        self.free_slots();
    }

    fn take_loose(&mut self, flagged: u32, location: Location) {
        let piece = Arc::make_mut(&mut self.state_mut().pieces[location.piece()]);
        let removed = piece.change(location.cluster(), |inside| inside.remove_loose(flagged));
        debug_assert!(removed, "a loose row is where its location says");
    }

    /// Removes a row from its columns; the last row takes its place.
    pub(crate) fn take_row(&mut self, location: Location) {
        let (state, locations) = self.parts();
        let (at, cluster) = (location.piece(), location.cluster());
        let (group, row) = (location.group(), location.row());
        let piece = Arc::make_mut(&mut state.pieces[at]);
        piece.change(cluster, |inside| {
            if let Some(moved) = inside.groups[group].remove(row) {
                let old = Location::new(at, cluster, group, inside.groups[group].ids.len());
                locations.relocate(moved, old, location);
            }
        });
    }

    /// The schema under which a row with these equalities meets the fewest events; may create one.
    fn schema_for(&mut self, equals: &[(u32, u32)]) -> usize {
        let Best { schema, likelihood, missing } = self.best_schema(equals);
        match missing {
            (without, Some(slot))
                if without < MAX_LIKELIHOOD_RATIO * likelihood
                    && self.state().schemas.len() < MAX_SCHEMAS =>
            {
                self.state_mut().add_schema(vec![slot])
            }
            _ => schema,
        }
    }

    /// The best of the existing schemas.
    pub(crate) fn best_schema(&self, equals: &[(u32, u32)]) -> Best {
        let mut best = (1.0, 0);
        let mut missing = (1.0, None);
        let state = self.state();
        for &(slot, id) in equals {
            let likelihood = self.statistics.likelihood(slot, id);
            match state.single.get(slot as usize).copied().flatten() {
                Some(schema) if likelihood < best.0 => best = (likelihood, schema as usize),
                None => {
                    let at_most = self.statistics.likelihood_at_most(slot, id);
                    if at_most < missing.0 {
                        missing = (at_most, Some(slot));
                    }
                }
                _ => {}
            }
        }
        if equals.len() > 1 {
            for &schema in &state.multiple {
                let slots = &state.schemas[schema as usize].slots;
                let found = |slot: &u32| equals.iter().find(|(other, _)| other == slot);
                let likelihood = slots.iter().try_fold(1.0, |all, slot| {
                    let (_, id) = found(slot)?;
                    Some(all * self.statistics.likelihood(*slot, *id))
                });
                if let Some(likelihood) = likelihood.filter(|likelihood| *likelihood < best.0) {
                    best = (likelihood, schema as usize);
                }
            }
        }
        Best { schema: best.1, likelihood: best.0, missing }
    }

    /// Creates the schemas that pay off for this number of subscriptions, if they are like the sample.
    pub(crate) fn choose_schemas(&mut self, sample: &[Coded], subscriptions: usize) {
        let many = subscriptions.max(self.options.expected);
        let mut advice = Advice::new(many, self.options.multiple);
        sample.iter().for_each(|coded| advice.offer(coded, &self.statistics));
        while advice.choose_one() {}
        for slots in advice.chosen() {
            let state = self.state_mut();
            let is_same = |schema: &Arc<Schema>| !schema.is_retired && schema.slots == slots;
            if slots.len() <= MAX_SLOTS && !state.schemas.iter().any(is_same) {
                state.add_schema(slots);
            }
        }
    }
}

impl State {
    /// Creates a schema of these slots, or reactivates a retired one.
    pub(crate) fn add_schema(&mut self, slots: Vec<u32>) -> usize {
        let is_same = |schema: &Arc<Schema>| !schema.is_dropped() && schema.slots == slots;
        let position = self.schemas.iter().position(is_same);
        let schema = match (position, self.free_schemas.pop()) {
            (Some(position), free) => {
                self.free_schemas.extend(free);
                position
            }
            (None, Some(free)) => free as usize,
            (None, None) => {
                self.schemas.push(Arc::new(Schema::dropped()));
                self.schemas.len() - 1
            }
        };
        match *slots.as_slice() {
            [] => {}
            [slot] => {
                let slot = slot as usize;
                if self.single.len() <= slot {
                    self.single.resize(slot + 1, None);
                }
                self.single[slot] = Some(schema as u32);
            }
            _ => self.multiple.push(schema as u32),
        }
        if position.is_some() {
            Arc::make_mut(&mut self.schemas[schema]).is_retired = false;
        } else {
            let piece = self.add_piece(schema);
            self.schemas[schema] = Arc::new(Schema::new(slots, piece as u32));
        }
        schema
    }

    /// Creates an empty piece.
    fn add_piece(&mut self, schema: usize) -> usize {
        let piece = Arc::new(Piece::new(schema as u32));
        if let Some(free) = self.free_pieces.pop() {
            self.pieces[free as usize] = piece;
            return free as usize;
        }
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    /// Makes space in a bucket whose last piece is full.
    fn split(&mut self, schema: usize, mut bucket: usize, locations: &mut Locations) {
        loop {
            let new = self.add_piece(schema);
            let rows = Arc::make_mut(&mut self.schemas[schema]);
            let Bucket { depth, pieces } = &mut rows.buckets[bucket];
            let at = *pieces.last().unwrap_or(&0) as usize;
            let keys = self.pieces[at].clusters.len();
            let full = Piece::new(schema as u32);
            if pieces.len() > 1 || keys < 2 || *depth == MAX_DEPTH {
                pieces.push(new as u32);
                return;
            }
            let bit = rows.split(bucket, new as u32);
            let other = rows.buckets.len() - 1;
            let old = std::mem::replace(&mut self.pieces[at], Arc::new(full));
            let old = Arc::unwrap_or_clone(old);
            for (before, cluster) in old.clusters.into_iter().enumerate() {
                if cluster.groups.iter().all(|group| group.ids.is_empty())
                    && cluster.loose.is_empty()
                {
                    continue;
                }
                let to = if mix(cluster.key) & bit == 0 { at } else { new };
                let piece = Arc::make_mut(&mut self.pieces[to]);
                let after = piece.clusters.len();
                cluster.each(|id, group, row| {
                    let old = Location::new(at, before, group, row);
                    // Clusters only move to lower indices, so no row is mistaken for another.
                    locations.relocate(id, old, Location::new(to, after, group, row));
                });
                piece.adopt(cluster);
            }
            let bytes = |piece: usize| self.pieces[piece].bytes;
            bucket = match (bytes(at) > LIMIT, bytes(new) > LIMIT) {
                (true, _) => bucket,
                (_, true) => other,
                _ => return,
            };
        }
    }
}
