//! Options for operators and tests.

use std::path::Path;

use phalanx::fs::Dir;

/// Maximum size of a batch in bytes, unless a single entry is longer.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;

/// Options of a store. [`Options::default`] suits a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size at which a segment is followed by another, in bytes; 64 MiB by default.
    pub segment_bytes: u64,
    /// Limit of live data in bytes, then [`Full`](crate::AppendError::Full); 8 GiB by default. The journal's
    /// size is up to two and a quarter times that, four segments and a batch, and one more segment on disk
    /// until it is deleted.
    pub max_bytes: u64,
    /// Limit of entries waiting for the disk in bytes, then [`Busy`](crate::AppendError::Busy); 64 MiB by
    /// default. A single entry may exceed it.
    pub max_pending_bytes: usize,
    /// Disk space set aside in a separate file for when the disk is full, in bytes; 0, the default, for none.
    /// With less than three segments a full journal may lack the space to clean.
    pub reserve_bytes: u64,
    /// Whether to open a store although acknowledged batches [are missing](crate::OpenError::Lost) at its
    /// end; false by default.
    pub accept_loss: bool,
    /// The salt of the journal's batch numbers; random if `None`. For simulations, in which all randomness
    /// comes from a seed. Ignored for an existing store.
    pub salt: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: MAX_SEGMENT_BYTES,
            max_bytes: 8 << 30,
            max_pending_bytes: 64 << 20,
            reserve_bytes: 0,
            accept_loss: false,
            salt: None,
        }
    }
}

const MAX_SEGMENT_BYTES: u64 = 64 << 20;
const MIN_SEGMENT_BYTES: u64 = 512 << 10;

/// Minimum number of segments that fit the file system, down to the minimum segment size.
const MIN_SEGMENTS_PER_DISK: u64 = 64;

impl Options {
    /// Options for a store in this directory, which need not exist. On a small file system segments are
    /// shorter (1/64 of it, at least 512 KiB). A reserve of three segments is set aside. May block.
    pub fn for_directory(path: &Path) -> Self {
        let here = path.ancestors().find_map(|above| match above.as_os_str().is_empty() {
            true => Dir::open(Path::new(".")).ok(),
            false => Dir::open(above).ok(),
        });
        let total = here.and_then(|here| here.space().ok()).map_or(u64::MAX, |space| space.total);
        let segment_bytes =
            (total / MIN_SEGMENTS_PER_DISK).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        Self { segment_bytes, reserve_bytes: 3 * segment_bytes, ..Self::default() }
    }
}
