//! The numbers of shared subscriptions in messages between the nodes of a cluster: subscription identifiers.

/// The subscription identifier of retained messages that a node gets when it joins.
pub(crate) const SYNC_ID: u32 = 268_435_455;

/// The number of a shared subscription in messages between nodes: a hash of its key, so that it survives a restart.
pub(crate) fn group_id(key: &str) -> u32 {
    // FNV-1a, whose result is the same in all versions and on all machines.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 + (hash % u64::from(SYNC_ID - 1)) as u32
}
