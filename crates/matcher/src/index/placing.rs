//! Filing rows under an access predicate, and taking them out again.

use std::sync::Arc;

use super::cluster::LOOSE;
use super::coding::{Coded, equality};
use super::column::Column;
use super::hashing::mix;
use super::location::{Location, Locations};
use super::piece::{LIMIT, Piece};
use super::residual::Residual;
use super::schema::{Bucket, DEEPEST, MOST, Schema};
use super::snapshot::State;
use super::{Index, advice};

/// A new schema for one attribute must be so much better than what is there.
const BETTER: f64 = 0.5;

impl Index {
    /// Files a row; `id` has its flag.
    pub(crate) fn place(&mut self, id: u32, coded: &Coded) {
        let schema = self.schema_for(&coded.equals);
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
        self.put(schema, key, id, &rest);
        self.rows += 1;
    }

    fn put(&mut self, schema: usize, key: u128, id: u32, rest: &[Residual]) {
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
        locations.add(id, Location::new(at, cluster, spot.group, spot.row));
        if piece.bytes > LIMIT {
            state.split(schema, bucket, locations);
        }
    }

    /// Takes all rows of a subscription out.
    pub(crate) fn remove_rows(&mut self, id: u32) {
        while let Some((flagged, location)) = self.locations.some(id) {
            self.locations.forget(id);
            self.rows -= 1;
            let (state, locations) = self.parts();
            let (at, cluster) = (location.piece(), location.cluster());
            let (group, row) = (location.group(), location.row());
            let piece = Arc::make_mut(&mut state.pieces[at]);
            piece.change(cluster, |inside| {
                if group == LOOSE {
                    let removed = inside.remove_loose(flagged);
                    debug_assert!(removed, "a loose row is where its location says");
                } else if let Some(moved) = inside.groups[group].remove(row) {
                    let old = Location::new(at, cluster, group, inside.groups[group].ids.len());
                    locations.relocate(moved, old, location);
                }
            });
        }
    }

    /// The schema under which a row with these equalities meets the fewest events; perhaps a new one.
    fn schema_for(&mut self, equals: &[(u32, u32)]) -> usize {
        let mut best = (1.0, 0);
        let mut missing = (1.0, None);
        let state = self.state();
        for &(slot, id) in equals {
            let likelihood = self.statistics.likelihood(slot, id);
            match state.single.get(slot as usize).copied().flatten() {
                Some(schema) if likelihood < best.0 => best = (likelihood, schema as usize),
                None if likelihood < missing.0 => missing = (likelihood, Some(slot)),
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
        match missing {
            (likelihood, Some(slot)) if likelihood < BETTER * best.0 => {
                self.state_mut().add_schema(vec![slot])
            }
            _ => best.1,
        }
    }

    /// Makes the schemas that are worth it for so many subscriptions like these.
    pub(crate) fn choose_schemas(&mut self, sample: &[Vec<(u32, u32)>], subscriptions: usize) {
        let many = subscriptions.max(self.options.expected);
        let multiple = self.options.multiple;
        let advised = advice::advise(sample, many, &self.statistics, multiple);
        for slots in advised {
            let state = self.state_mut();
            if slots.len() <= MOST && state.schemas.iter().all(|schema| schema.slots != slots) {
                state.add_schema(slots);
            }
        }
    }

    /// Files all subscriptions anew, under the access predicates that are best for what is there now.
    ///
    /// It takes about as long as inserting them all again, one to two seconds for a million; snapshots
    /// that are held meanwhile keep what they have. It is worth it when there are several times as many
    /// subscriptions as at the last time, or others than then.
    pub fn adapt(&mut self) {
        let state = self.state_mut();
        let schemas = std::mem::take(&mut state.schemas);
        let pieces = std::mem::take(&mut state.pieces);
        state.clear();
        let rows = std::mem::take(&mut self.rows);
        self.locations.forget_all();
        let step = (rows / 4096).max(1);
        let mut sample = Vec::new();
        let mut at = 0;
        for piece in &pieces {
            self.each_row(&schemas, piece, |_, _, coded| {
                if at % step == 0 {
                    sample.push(coded.equals.clone());
                }
                at += 1;
            });
        }
        self.choose_schemas(&sample, rows);
        for piece in pieces {
            let mut all = Vec::new();
            self.each_row(&schemas, &piece, |_, id, coded| all.push((id, coded)));
            drop(piece);
            all.iter().for_each(|(id, coded)| self.place(*id, coded));
        }
    }

    /// Calls back with each row of a piece, its access predicate put back among its equalities.
    fn each_row(
        &self,
        schemas: &[Arc<Schema>],
        piece: &Piece,
        mut f: impl FnMut(&Self, u32, Coded),
    ) {
        let schema = &schemas[piece.schema as usize];
        for cluster in &piece.clusters {
            let mut row = |id: u32, residuals: &mut dyn Iterator<Item = Residual>| {
                let mut coded =
                    Coded { equals: schema.equals(cluster.key).collect(), rest: Vec::new() };
                for residual in residuals {
                    let equality = match residual {
                        Residual::Equal { slot, code } => Some((u32::from(slot), u32::from(code))),
                        Residual::Wide { slot, low, width: 0 } => Some((slot, low as u32)),
                        _ => None,
                    };
                    let of_constants = |slot: u32| {
                        matches!(self.state().dictionary.slots[slot as usize], Column::Equal(_))
                    };
                    match equality.filter(|(slot, _)| of_constants(*slot)) {
                        Some(equality) => coded.equals.push(equality),
                        None => coded.rest.push(residual),
                    }
                }
                f(self, id, coded);
            };
            for group in &cluster.groups {
                for (at, id) in group.ids.iter().enumerate() {
                    row(*id, &mut group.row(at).into_iter());
                }
            }
            for (id, words) in cluster.records() {
                row(id, &mut super::cluster::residuals(words));
            }
        }
    }
}

impl State {
    pub(crate) fn add_schema(&mut self, slots: Vec<u32>) -> usize {
        let (schema, piece) = (self.schemas.len(), self.pieces.len());
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
        self.pieces.push(Arc::new(Piece::new(schema as u32)));
        self.schemas.push(Arc::new(Schema::new(slots, piece as u32)));
        schema
    }

    /// Makes room in a bucket whose last piece is full.
    fn split(&mut self, schema: usize, mut bucket: usize, locations: &mut Locations) {
        loop {
            let rows = Arc::make_mut(&mut self.schemas[schema]);
            let new = self.pieces.len();
            let Bucket { depth, pieces } = &mut rows.buckets[bucket];
            let at = *pieces.last().unwrap_or(&0) as usize;
            let keys = self.pieces[at].clusters.len();
            let full = Piece::new(schema as u32);
            self.pieces.push(Arc::new(full.clone()));
            if pieces.len() > 1 || keys < 2 || *depth == DEEPEST {
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
                    // Clusters only move to the front, so no row here is taken for another.
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
