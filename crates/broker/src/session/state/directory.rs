//! The directory: the partition of each client's session. A new session gets a partition of the processor that serves the
//! client's connection.
//!
//! So the operations of a connection seldom call another processor. A few connections share one processor, and their
//! messages never cross to another.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::durable::Lsn;
use crate::lock::lock;

/// Number of shards. With many shards, processors seldom wait for each other, and clients seldom for the recorded end of
/// another client's session.
const SHARDS: usize = 1024;

/// The clients whose identifiers have the same hash modulo [`SHARDS`].
#[derive(Debug, Default)]
struct Shard {
    /// Partitions by client identifier. Empty if there is only one partition.
    partitions: HashMap<Arc<str>, u16>,
    /// The LSN of the shard's last recorded session end.
    ended: Lsn,
}

/// The partitions of all sessions. An entry changes only on the processor that owns its partition.
#[derive(Clone, Debug)]
pub(crate) struct Directory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// Whether there is only one partition.
    is_single: bool,
}

impl Directory {
    pub(crate) fn new(partitions: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let is_single = partitions <= 1;
        Self(Arc::new(Shared { shards, hasher: RandomState::new(), is_single }))
    }

    /// The shard of a client.
    fn shard(&self, client: &str) -> MutexGuard<'_, Shard> {
        let Shared { shards, hasher, .. } = &*self.0;
        lock(&shards[(hasher.hash_one(client) % SHARDS as u64) as usize])
    }

    /// Returns the partition of a client's session. Enters `partition` if the client has no session.
    pub(crate) fn claim(&self, client: &Arc<str>, partition: u16) -> u16 {
        match self.0.is_single {
            true => partition,
            false => *self.shard(client).partitions.entry(client.clone()).or_insert(partition),
        }
    }

    /// The partition of a client's session; `None` if the client has no session.
    pub(crate) fn find(&self, client: &str) -> Option<u16> {
        match self.0.is_single {
            true => Some(0),
            false => self.shard(client).partitions.get(client).copied(),
        }
    }

    /// Removes the entry of a client whose session in `partition` has ended. Another partition's entry remains.
    pub(crate) fn release(&self, client: &str, partition: u16) {
        if self.0.is_single {
            return;
        }
        let partitions = &mut self.shard(client).partitions;
        if partitions.get(client) == Some(&partition) {
            partitions.remove(client);
        }
    }

    /// Records that the end of a client's session was appended to the WAL.
    pub(crate) fn session_ended(&self, client: &str, lsn: Lsn) {
        let ended = &mut self.shard(client).ended;
        *ended = lsn.max(*ended);
    }

    /// The LSN of the last recorded session end in the client's shard. It covers the client's own last session.
    pub(crate) fn ended(&self, client: &str) -> Lsn {
        self.shard(client).ended
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
        directory.release("c", 1);
        assert_eq!(directory.claim(&client, 0), 0);
        directory.release("c", 1);
        assert_eq!(directory.find("c"), Some(0), "the entry is that of partition 0");
    }

    #[test]
    fn one_partition_has_all_sessions() {
        let directory = Directory::new(1);
        assert_eq!(directory.claim(&Arc::from("c"), 0), 0);
        assert_eq!(directory.find("d"), Some(0));
    }

    #[test]
    fn few_clients_wait_for_the_session_end_of_another() {
        for partitions in [1, 2] {
            let directory = Directory::new(partitions);
            let [first, second] = [Lsn::from(1), Lsn::from(2)];
            directory.session_ended("c", second);
            directory.session_ended("c", first);
            assert_eq!(directory.ended("c"), second);
            let others = (0..100).map(|n| directory.ended(&format!("other {n}")));
            let waiting = others.filter(|lsn| *lsn != Lsn::default()).count();
            assert!(waiting < 10, "{waiting} of 100");
        }
    }
}
