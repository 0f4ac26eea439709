//! A piece of the index: clusters of one schema, up to about the size of a second-level cache.
//!
//! A piece can be matched separately, so cohorts of events queue at pieces. It is also the unit of copying
//! when the index changes while a reader holds it.

use std::collections::HashMap;

use super::cluster::Cluster;
use crate::index::code::hashing::BuildMixHasher;

/// Size in bytes above which a piece is split.
pub(crate) const LIMIT: usize = 384 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) schema: u32,
    pub(crate) map: HashMap<u128, u32, BuildMixHasher>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) bytes: usize,
}

impl Piece {
    pub(crate) fn new(schema: u32) -> Piece {
        Piece { schema, map: HashMap::default(), clusters: Vec::new(), bytes: 0 }
    }

    /// Whether the piece has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.iter().all(Cluster::is_empty)
    }

    /// The cluster of a key; creates it if necessary.
    pub(crate) fn cluster(&mut self, key: u128) -> usize {
        let next = self.clusters.len();
        let at = *self.map.entry(key).or_insert(next as u32) as usize;
        if at == next {
            let cluster = Cluster::new(key);
            self.bytes += cluster.bytes() + 32;
            self.clusters.push(cluster);
        }
        at
    }

    /// Changes a cluster and updates the size.
    pub(crate) fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Cluster) -> R) -> R {
        let before = self.clusters[at].bytes();
        let result = change(&mut self.clusters[at]);
        self.bytes = self.bytes - before + self.clusters[at].bytes();
        result
    }

    /// Moves a cluster into this piece; returns its index.
    pub(crate) fn adopt(&mut self, cluster: Cluster) -> usize {
        let at = self.clusters.len();
        self.map.insert(cluster.key, at as u32);
        self.bytes += cluster.bytes() + 32;
        self.clusters.push(cluster);
        at
    }
}

impl Cluster {
    /// Whether the cluster has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.loose.is_empty() && self.groups.iter().all(|group| group.ids.is_empty())
    }

    /// Calls `f` with each subscription, its group and its row.
    pub(crate) fn each(&self, mut f: impl FnMut(u32, usize, usize)) {
        for (at, group) in self.groups.iter().enumerate() {
            group.ids.iter().enumerate().for_each(|(row, id)| f(*id, at, row));
        }
        self.records().for_each(|(id, _)| f(id, super::cluster::LOOSE, 0));
    }
}
