//! The server's stages, and how a key finds its partition.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use phalanx::time::now;
use phalanx::{Call, Graph, PartitionedStage, SharedStage};

use crate::reply::Reply;
use crate::store::{Action, Store};

/// Handles on the stages, in wavefront order.
#[derive(Clone)]
pub(crate) struct Stages {
    /// Whole connections: they read, ask the store, and write.
    pub(crate) clients: SharedStage<()>,
    /// The keys.
    pub(crate) store: PartitionedStage<Store>,
    /// A keyed hash, so that clients cannot choose keys that all meet in one partition.
    hasher: Arc<RandomState>,
}

impl Stages {
    pub(crate) fn declare(graph: &mut Graph) -> Self {
        Self {
            // Beyond 64 sockets their kernel state leaves the cache again.
            clients: graph.stage("clients").max_cohort(64).shared(()),
            // In order: the commands of a pipeline must reach a key in the order they were sent.
            store: graph.stage("store").partitioned(|_partition| Store::default()),
            hasher: Arc::new(RandomState::new()),
        }
    }

    /// Invokes `action` on the partition that has `key`.
    pub(crate) fn on_key(&self, key: Vec<u8>, action: Action) -> Call<Reply> {
        self.store.call(self.hasher.hash_one(&key), move |partition| async move {
            partition.with(|store| store.apply(key, action, now()))
        })
    }
}
