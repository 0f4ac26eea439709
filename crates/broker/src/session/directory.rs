//! The partition of each client's session: that of the processor which served the client's connection first.
//!
//! The operations of a connection then seldom call another processor. With few connections, which share a processor, no
//! message does.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::durable::Lsn;

/// Number of locks, so that processors seldom wait for each other.
const SHARDS: usize = 64;

/// Partitions by client identifier.
type Shard = HashMap<Arc<str>, u16>;

/// The partitions of all sessions. An entry changes only on the processor that owns its partition.
#[derive(Clone, Debug)]
pub(crate) struct Directory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Empty if there is only one partition.
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// The LSN of the last recorded end of a session.
    ended: Mutex<Lsn>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Directory {
    pub(crate) fn new(partitions: usize) -> Self {
        let shards = if partitions > 1 { SHARDS } else { 0 };
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        Self(Arc::new(Shared { shards, hasher: RandomState::new(), ended: Mutex::default() }))
    }

    /// The part with the entry of a client; none if there is only one partition.
    fn shard(&self, client: &str) -> Option<MutexGuard<'_, Shard>> {
        let Shared { shards, hasher, .. } = &*self.0;
        let shard = hasher.hash_one(client) % shards.len().max(1) as u64;
        shards.get(shard as usize).map(lock)
    }

    /// The partition of a client's session. A client without a session is entered with `partition`.
    pub(crate) fn claim(&self, client: &Arc<str>, partition: u16) -> u16 {
        match self.shard(client) {
            Some(mut shard) => *shard.entry(client.clone()).or_insert(partition),
            None => partition,
        }
    }

    /// The partition of a client's session; none if it has no session.
    pub(crate) fn find(&self, client: &str) -> Option<u16> {
        self.shard(client).map_or(Some(0), |shard| shard.get(client).copied())
    }

    /// Removes the entry of a client whose session has ended.
    pub(crate) fn release(&self, client: &str) {
        self.shard(client).map(|mut shard| shard.remove(client));
    }

    /// Records that the end of a session was appended to the WAL.
    pub(crate) fn session_ended(&self, lsn: Lsn) {
        let mut ended = lock(&self.0.ended);
        *ended = lsn.max(*ended);
    }

    /// The LSN of the last recorded end of a session.
    pub(crate) fn ended(&self) -> Lsn {
        *lock(&self.0.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stays_where_it_was_created() {
        let (directory, client) = (Directory::new(2), Arc::from("c"));
        assert_eq!(directory.find("c"), None);
        assert_eq!(directory.claim(&client, 1), 1);
        assert_eq!(directory.claim(&client, 0), 1);
        assert_eq!(directory.find("c"), Some(1));
        directory.release("c");
        assert_eq!(directory.claim(&client, 0), 0);
    }

    #[test]
    fn one_partition_has_all_sessions() {
        let directory = Directory::new(1);
        assert_eq!(directory.claim(&Arc::from("c"), 0), 0);
        assert_eq!(directory.find("d"), Some(0));
    }
}
