//! What an operator or a test can set.

use std::path::Path;

use phalanx::fs::Dir;

/// How a store works. [`Options::default`] is for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that is longer gets a successor. In bytes, 64 MiB by default.
    pub segment_bytes: u64,
    /// What is alive may have so many bytes; then [`Full`](crate::AppendError::Full). 8 GiB by default. The
    /// journal has up to two and a quarter times that, four segments and a batch, and a segment more lies on the
    /// disk until it may go.
    pub max_bytes: u64,
    /// What waits for the disk may have so many bytes; then [`Busy`](crate::AppendError::Busy). 64 MiB by
    /// default; a single entry may be longer.
    pub max_pending_bytes: usize,
    /// So many bytes of the disk are set aside in a file of their own, for the time when the disk is full; 0 for none,
    /// as by default. With less than three segments' a full journal may find no room to be cleaned.
    pub reserve_bytes: u64,
    /// Open a store though acknowledged batches [are missing](crate::OpenError::Lost) at its end, with what is there. False
    /// by default.
    pub accept_loss: bool,
    /// What the journal's numbers are mixed with; drawn by chance if none is given. For simulation, in
    /// which all chance is to come from a seed. Of no meaning for a store that is there already.
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

/// A file system has room for so many segments at least, if they are not the shortest.
const MIN_SEGMENTS_PER_DISK: u64 = 64;

impl Options {
    /// For a store in this directory, which need not be there yet: on a small file system the segments are shorter (a
    /// 64th of it, 512 KiB at least), and three segments' bytes are set aside. May block.
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
