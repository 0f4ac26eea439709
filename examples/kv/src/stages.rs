//! The stages of the server, and the mapping from keys to partitions.

use std::hash::RandomState;
use std::sync::Arc;

use phalanx::{Graph, PartitionedStage, SharedStage};

use crate::key::Key;
use crate::store::Store;

/// Handles of the stages, in wavefront order.
#[derive(Clone)]
pub(crate) struct Stages {
    /// Connections: read, call the store, write.
    pub(crate) clients: SharedStage<()>,
    /// The keys.
    pub(crate) store: PartitionedStage<Store>,
    /// A keyed hash, so that clients cannot choose keys of one partition.
    hasher: Arc<RandomState>,
}

impl Stages {
    pub(crate) fn declare(graph: &mut Graph) -> Self {
        Self {
            // With more than 64 sockets, their kernel state exceeds the cache.
            clients: graph.stage("clients").max_cohort(64).shared(()),
            // A call takes the partition of a sleeping processor over, so that it wakes none. The code of a step is
            // short, so that it need not wait for a cohort.
            store: graph.stage("store").direct().migrating(|_partition| Store::default()),
            hasher: Arc::new(RandomState::new()),
        }
    }

    /// The key of these bytes, and its partition.
    pub(crate) fn locate(&self, bytes: &[u8]) -> (usize, Key) {
        let key = Key::new(bytes, &self.hasher);
        (self.store.partition_of(key.hash()), key)
    }
}
