//! Bounds of the changes that wait for the disk, in bytes.

/// Changes that are noted and committed at once, but for the last of them.
pub(crate) const MAX_COMMIT_BYTES: usize = 1 << 20;

/// Changes that wait for the disk; beyond, there is no room for more.
const MAX_PENDING_BYTES: usize = 64 << 20;

/// Beyond so many, messages that nobody is promised to keep wait with the disk, too: they take as long to write, and others
/// wait behind them.
pub(crate) const BACKLOG_BYTES: usize = 4 * MAX_COMMIT_BYTES;

/// The bounds of one wal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// See [`MAX_COMMIT_BYTES`].
    pub(crate) commit: usize,
    /// See [`BACKLOG_BYTES`].
    pub(crate) backlog: usize,
    /// See [`MAX_PENDING_BYTES`].
    pub(crate) pending: usize,
}

impl Bounds {
    /// Where room is set aside for a full disk, the changes that wait when it is full must fit in a third of that.
    pub(crate) fn new(reserve: u64) -> Self {
        let third = usize::try_from(reserve / 3).unwrap_or(usize::MAX);
        let pending = if reserve > 0 { MAX_PENDING_BYTES.min(third) } else { MAX_PENDING_BYTES };
        Self {
            commit: MAX_COMMIT_BYTES.min(pending / 2),
            backlog: BACKLOG_BYTES.min(pending / 2),
            pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_fits_in_the_reserve() {
        let usual =
            Bounds { commit: MAX_COMMIT_BYTES, backlog: BACKLOG_BYTES, pending: MAX_PENDING_BYTES };
        assert_eq!(Bounds::new(0), usual);
        assert_eq!(Bounds::new(192 << 20), usual);
        let small = Bounds { commit: 256 << 10, backlog: 256 << 10, pending: 512 << 10 };
        assert_eq!(Bounds::new(1536 << 10), small);
    }
}
