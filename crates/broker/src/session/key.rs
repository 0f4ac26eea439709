//! Where a client's session is.

use std::hash::BuildHasher;

/// A session among all: the partition that has it, its place there, and which of those that have had the
/// place it is. A key outlives its session; it is nobody's then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub(crate) partition: u16,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The partition that a client of this name has its session in, of so many.
pub(crate) fn partition_of(client_id: &str, partitions: usize) -> usize {
    // Not drawn by chance: a seed decides all in simulation.
    let hash = foldhash::fast::FixedState::with_seed(0).hash_one(client_id);
    ((u128::from(hash) * partitions as u128) >> 64) as usize
}
