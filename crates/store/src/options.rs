//! Options for operators and tests.

use std::path::Path;

use phalanx::fs::Dir;

/// Maximum size of a batch in bytes, unless a single entry is longer.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;

/// Options of a store. [`Options::default`] suits a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The size in bytes at which a new segment is started; 64 MiB by default.
    pub segment_bytes: u64,
    /// The limit on live data, in bytes; 8 GiB by default. Beyond it, appends fail with
    /// [`Full`](crate::AppendError::Full). The journal's size is at most two and a quarter times this limit plus four
    /// segments and a batch, and one more segment on disk until it is deleted.
    pub max_bytes: u64,
    /// The limit on entries that wait for the disk, in bytes; 64 MiB by default. Beyond it, appends fail with
    /// [`Busy`](crate::AppendError::Busy). A single entry may exceed it.
    pub max_pending_bytes: usize,
    /// Disk space kept in a separate file as a reserve for when the disk is full, in bytes. The default is 0, for no
    /// reserve. With less than three segments, a full journal may lack the space to clean.
    pub reserve_bytes: u64,
    /// Whether to open a store although acknowledged batches [are missing](crate::OpenError::Lost) at its
    /// end; false by default.
    pub accept_loss: bool,
    /// The salt of the journal's batch numbers; random if `None`. Simulations set it, because all their randomness
    /// comes from a seed. It is ignored for an existing store.
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

/// The minimum number of segments that fit on the file system, unless that would make segments shorter than the
/// minimum.
const MIN_SEGMENTS_PER_DISK: u64 = 64;

impl Options {
    /// Options for a store in this directory, which need not exist. On a small file system segments are shorter (1/64
    /// of it, at least 512 KiB). The options include a reserve of three segments. May block.
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
