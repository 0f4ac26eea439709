//! The location of a client's session.

use std::hash::BuildHasher;

/// Identifies a session by its partition, its slot there, and the slot's generation. After the session has ended, the key
/// is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub(crate) partition: u16,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The partition of a client's session.
pub(crate) fn partition_of(client_id: &str, partitions: usize) -> usize {
    // A fixed seed, so that simulations are deterministic.
    let hash = foldhash::fast::FixedState::with_seed(0).hash_one(client_id);
    ((u128::from(hash) * partitions as u128) >> 64) as usize
}
