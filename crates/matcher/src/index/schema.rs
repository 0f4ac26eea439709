//! An access predicate's attributes, and which pieces hold what is under their values.
//!
//! A subscription is filed under the values that it wants for one schema's slots: an event can only match it
//! if it has the same. The schema without slots holds what has no equality. The pieces of a schema are found
//! by extendible hashing: a full one is split by the next bit of its keys' hashes. What cannot be split, since
//! one key has it all, goes on in further pieces.

use super::event::Event;
use super::hashing::mix;

/// The most slots of a schema: so many numbers fit into a key.
pub(crate) const MOST: usize = 4;
/// Bits of the hash that may be used up by splitting.
pub(crate) const DEEPEST: u32 = 20;

#[derive(Clone, Debug)]
pub(crate) struct Schema {
    /// Equality slots in rising order.
    pub(crate) slots: Vec<u32>,
    /// By so many low bits of a key's hash: a bucket.
    directory: Vec<u32>,
    /// None of a schema that is gone, whose number may be given again.
    pub(crate) buckets: Vec<Bucket>,
    /// Nothing new is filed here, and what is here is to leave.
    pub(crate) is_retired: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Bits of the hash that all its keys have in common.
    pub(crate) depth: u32,
    /// New subscriptions go to the last; a key's may lie in all.
    pub(crate) pieces: Vec<u32>,
}

impl Schema {
    /// One whose only piece is `piece`.
    pub(crate) fn new(slots: Vec<u32>, piece: u32) -> Schema {
        debug_assert!(slots.len() <= MOST && slots.is_sorted());
        Schema {
            slots,
            directory: vec![0],
            buckets: vec![Bucket { depth: 0, pieces: vec![piece] }],
            is_retired: false,
        }
    }

    /// One that no event and no subscription comes to.
    pub(crate) fn gone() -> Schema {
        Schema { slots: Vec::new(), directory: Vec::new(), buckets: Vec::new(), is_retired: true }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.buckets.is_empty()
    }

    /// What an event could match in this schema; none if it lacks a value.
    #[inline]
    pub(crate) fn key(&self, event: &Event) -> Option<u128> {
        if self.is_gone() {
            return None;
        }
        let mut key = 0;
        for slot in &self.slots {
            key = key << 32 | u128::from(event.number(*slot)?);
        }
        Some(key)
    }

    /// A subscription's key: all slots are among its equalities.
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

    /// Splits a bucket that has one piece; the keys whose hash has the next bit go to the new bucket, whose
    /// piece is `piece`. Returns the bit.
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
