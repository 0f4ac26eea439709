//! The position of a walk over all rows.

use crate::index::rows::cluster::Cluster;

/// Position of the walk, and the pieces it skips.
#[derive(Debug)]
pub(crate) struct Walk {
    /// New schemas; their rows are already in place.
    pub(super) fresh: Vec<u32>,
    /// Numbers of dropped pieces; they are not reused during the walk.
    pub(super) free: Vec<u32>,
    pub(super) piece: usize,
    /// Number of clusters left to visit in the piece; `None` before the first.
    pub(super) clusters: Option<usize>,
    pub(super) inside: Option<Inside>,
}

/// Rows left to visit in the last of these clusters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) groups: usize,
    /// Rows left in the last of these groups.
    pub(super) rows: usize,
    pub(super) loose: usize,
}

impl Walk {
    pub(crate) fn new(fresh: Vec<u32>, free: Vec<u32>) -> Walk {
        Walk { fresh, free, piece: 0, clusters: None, inside: None }
    }

    pub(crate) fn into_free(self) -> Vec<u32> {
        self.free
    }
}

impl Inside {
    pub(super) fn of(cluster: &Cluster) -> Inside {
        let groups = cluster.groups.len();
        let loose = cluster.records().count();
        Inside { groups, rows: usize::MAX, loose }
    }
}
