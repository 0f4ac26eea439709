//! The stages of the server, and the mapping from keys to partitions.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use phalanx::time::now;
use phalanx::{Call, Graph, PartitionedStage, SharedStage};

use crate::reply::Reply;
use crate::store::{Action, Store};

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
            // In order: the commands of a pipeline must reach a key in the order they were sent.
            store: graph.stage("store").partitioned(|_partition| Store::default()),
            hasher: Arc::new(RandomState::new()),
        }
    }

    /// Calls `action` on the partition of `key`.
    pub(crate) fn on_key(&self, key: Vec<u8>, action: Action) -> Call<Reply> {
        self.store.call(self.hasher.hash_one(&key), move |partition| async move {
            partition.with(|store| store.apply(key, action, now()))
        })
    }
}
