//! A schema: the attributes of one access predicate, and a directory of the pieces with their values.
//!
//! A subscription is filed under the values that it requires for the schema's slots; an event matches it only if the
//! event has the same values. The schema without slots holds subscriptions without equalities. Pieces are found by
//! extendible hashing: a full bucket is split by the next bit of its keys' hashes. A bucket with a single key cannot be
//! split and gets additional pieces instead.

use crate::index::code::event::Event;
use crate::index::code::hashing::mix;

/// Maximum number of slots of a schema: a key holds this many numbers.
pub(crate) const MAX_SLOTS: usize = 4;
/// Maximum number of hash bits used for splitting.
pub(crate) const MAX_DEPTH: u32 = 20;

#[derive(Clone, Debug)]
pub(crate) struct Schema {
    /// Equality slots in rising order.
    pub(crate) slots: Vec<u32>,
    /// Maps the low bits of a key's hash to a bucket.
    directory: Vec<u32>,
    /// Empty if the schema was dropped and its number may be reused.
    pub(crate) buckets: Vec<Bucket>,
    /// Whether the schema accepts no more rows, and its existing rows are being moved elsewhere.
    pub(crate) is_retired: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Number of low hash bits that all keys of the bucket share.
    pub(crate) depth: u32,
    /// New subscriptions go to the last piece; a key's rows may lie in all of them.
    pub(crate) pieces: Vec<u32>,
}

impl Schema {
    /// A schema with one bucket, which has one piece.
    pub(crate) fn new(slots: Vec<u32>, piece: u32) -> Schema {
        debug_assert!(slots.len() <= MAX_SLOTS && slots.is_sorted());
        Schema {
            slots,
            directory: vec![0],
            buckets: vec![Bucket { depth: 0, pieces: vec![piece] }],
            is_retired: false,
        }
    }

    /// A dropped schema, which no event and no subscription reaches.
    pub(crate) fn dropped() -> Schema {
        Schema { slots: Vec::new(), directory: Vec::new(), buckets: Vec::new(), is_retired: true }
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The event's key in this schema; `None` if the event lacks a value.
    #[inline]
    pub(crate) fn key(&self, event: &Event) -> Option<u128> {
        if self.is_dropped() {
            return None;
        }
        let mut key = 0;
        for slot in &self.slots {
            key = key << 32 | u128::from(event.number(*slot)?);
        }
        Some(key)
    }

    /// A subscription's key; `None` unless its equalities include all slots.
    pub(crate) fn key_of(&self, equals: &[(u32, u32)]) -> Option<u128> {
        self.slots.iter().try_fold(0, |key, slot| {
            let (_, id) = equals.iter().find(|(other, _)| other == slot)?;
            Some(key << 32 | u128::from(*id))
        })
    }

    /// The equalities that a key stands for.
    pub(crate) fn equals(&self, key: u128) -> impl Iterator<Item = (u32, u32)> + '_ {
        let places = (0..self.slots.len()).rev();
        self.slots.iter().zip(places).map(move |(slot, at)| (*slot, (key >> (32 * at)) as u32))
    }

    pub(crate) fn bytes(&self) -> usize {
        let pieces: usize = self.buckets.iter().map(|bucket| 4 * bucket.pieces.len()).sum();
        4 * self.directory.len() + size_of::<Bucket>() * self.buckets.len() + pieces
    }

    #[inline]
    pub(crate) fn bucket(&self, key: u128) -> usize {
        if self.directory.len() == 1 {
            return 0;
        }
        self.directory[mix(key) as usize & (self.directory.len() - 1)] as usize
    }

    /// Splits a bucket that has one piece. Keys whose hash has the next bit set move to the new bucket, whose
    /// piece is `piece`. Returns that bit.
    pub(crate) fn split(&mut self, bucket: usize, piece: u32) -> u64 {
        let depth = self.buckets[bucket].depth;
        if 1 << depth == self.directory.len() {
            self.directory.extend_from_within(..);
        }
        let new = self.buckets.len();
        self.buckets[bucket].depth += 1;
        self.buckets.push(Bucket { depth: depth + 1, pieces: vec![piece] });
        for (at, entry) in self.directory.iter_mut().enumerate() {
            if *entry as usize == bucket && at >> depth & 1 == 1 {
                *entry = new as u32;
            }
        }
        1 << depth
    }
}
