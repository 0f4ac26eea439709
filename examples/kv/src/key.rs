//! Keys with their hashes. The hash of a key is computed once: it selects the partition, and the entry in its map.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::ops::Deref;

use smallvec::SmallVec;

/// A key. Up to [`INLINE`] bytes need no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    hash: u64,
    bytes: SmallVec<[u8; INLINE]>,
}

const INLINE: usize = 24;

impl Key {
    pub(crate) fn new(bytes: &[u8], hasher: &RandomState) -> Self {
        Self { hash: hasher.hash_one(bytes), bytes: SmallVec::from_slice(bytes) }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Hashes a [`Key`] to its own hash.
pub(crate) type OwnHash = BuildHasherDefault<OwnHasher>;

#[derive(Default)]
pub(crate) struct OwnHasher(u64);

impl Hasher for OwnHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashed by their hash");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
