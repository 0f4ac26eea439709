//! A piece of the index: clusters of one schema, about as much as a second-level cache holds.
//!
//! A piece can be matched alone, so it is what a cohort of events is queued at. It is also what is copied
//! when it changes while somebody still reads it.

use std::collections::HashMap;

use super::cluster::Cluster;
use super::hashing::Mixing;

/// Bytes beyond which a piece is split.
pub(crate) const LIMIT: usize = 384 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) schema: u32,
    pub(crate) map: HashMap<u128, u32, Mixing>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) bytes: usize,
}

impl Piece {
    pub(crate) fn new(schema: u32) -> Piece {
        Piece { schema, map: HashMap::default(), clusters: Vec::new(), bytes: 0 }
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.iter().all(Cluster::is_empty)
    }

    /// The cluster of a key; a new one if there is none.
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

    /// Changes a cluster and keeps count of the bytes.
    pub(crate) fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Cluster) -> R) -> R {
        let before = self.clusters[at].bytes();
        let result = change(&mut self.clusters[at]);
        self.bytes = self.bytes - before + self.clusters[at].bytes();
        result
    }

    /// Takes over a cluster; returns its place.
    pub(crate) fn adopt(&mut self, cluster: Cluster) -> usize {
        let at = self.clusters.len();
        self.map.insert(cluster.key, at as u32);
        self.bytes += cluster.bytes() + 32;
        self.clusters.push(cluster);
        at
    }
}

impl Cluster {
    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.loose.is_empty() && self.groups.iter().all(|group| group.ids.is_empty())
    }

    /// Calls back with each subscription and its group and row.
    pub(crate) fn each(&self, mut f: impl FnMut(u32, usize, usize)) {
        for (at, group) in self.groups.iter().enumerate() {
            group.ids.iter().enumerate().for_each(|(row, id)| f(*id, at, row));
        }
        self.records().for_each(|(id, _)| f(id, super::cluster::LOOSE, 0));
    }
}
