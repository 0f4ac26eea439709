//! Holders: the set of processors that have a replica of a value, and whether the value was revoked.
//!
//! A processor that takes a replica is *added* before it stores the replica. The owner *revokes* the value and then
//! asks the holders to drop their replicas. Each is one read-modify-write operation on the same word. The modifications
//! of a word are totally ordered, so one of the two comes first:
//!
//! - If the addition comes first, the owner finds the processor's bit and sends it a command. The processor runs the
//!   command after it has stored the replica, because it runs nothing else between the addition and the store.
//! - If the revocation comes first, the processor sees it and stores nothing.
//!
//! A processor that evicts a replica is *removed*. If the owner has already revoked the value, its command finds no
//! replica. `loom.rs` contains the models.

use crate::sync::{AtomicU64, Ordering};

/// The bit that marks a value as revoked, set in each word.
const REVOKED: u64 = 1 << 63;
/// Processors per word.
const PER_WORD: usize = 63;

/// The holders of one value.
pub(crate) struct Holders {
    first: AtomicU64,
    /// For programs with more than [`PER_WORD`] processors.
    others: Box<[AtomicU64]>,
}

impl Holders {
    /// An empty set, for a program with this number of processors.
    pub(crate) fn new(processors: usize) -> Self {
        let others = 1..processors.div_ceil(PER_WORD);
        Self { first: AtomicU64::new(0), others: others.map(|_| AtomicU64::new(0)).collect() }
    }

    fn word(&self, processor: usize) -> &AtomicU64 {
        match processor / PER_WORD {
            0 => &self.first,
            word => &self.others[word - 1],
        }
    }

    /// Records that `processor` takes a replica. Returns `false` if the value was revoked.
    pub(crate) fn add(&self, processor: usize) -> bool {
        let bit = 1 << (processor % PER_WORD);
        self.word(processor).fetch_or(bit, Ordering::AcqRel) & REVOKED == 0
    }

    /// Records that `processor` no longer has a replica.
    pub(crate) fn remove(&self, processor: usize) {
        let bit = 1 << (processor % PER_WORD);
        self.word(processor).fetch_and(!bit, Ordering::AcqRel);
    }

    /// Whether the value was revoked, as `processor` sees it.
    #[inline]
    pub(crate) fn is_revoked(&self, processor: usize) -> bool {
        self.word(processor).load(Ordering::Acquire) & REVOKED != 0
    }

    /// Revokes the value. Returns the processors that hold a replica.
    pub(crate) fn revoke(&self) -> Vec<usize> {
        let words = std::iter::once(&self.first).chain(&self.others).enumerate();
        let bits = words.flat_map(|(at, word)| {
            let bits = word.fetch_or(REVOKED, Ordering::AcqRel);
            let set = (0..PER_WORD).filter(move |bit| bits & (1 << bit) != 0);
            set.map(move |bit| at * PER_WORD + bit)
        });
        bits.collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn processors_beyond_the_first_word() {
        let holders = Holders::new(200);
        for processor in [0, 62, 63, 126, 199] {
            assert!(holders.add(processor));
        }
        holders.remove(63);
        assert!(!holders.is_revoked(199));
        assert_eq!(holders.revoke(), [0, 62, 126, 199]);
        for processor in [0, 63, 100, 199] {
            assert!(holders.is_revoked(processor) && !holders.add(processor));
        }
    }
}
