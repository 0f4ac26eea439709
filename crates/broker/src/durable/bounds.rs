//! Limits on records waiting for the disk, in bytes.

/// Maximum size of records committed together; the last entry may exceed it.
pub(crate) const MAX_COMMIT_BYTES: usize = 1 << 20;

/// Maximum size of records waiting for the disk; beyond it, additions are refused.
const MAX_PENDING_BYTES: usize = 64 << 20;

/// Backlog beyond which publishers of retained QoS 0 messages also wait for the disk, because their records delay those
/// of others.
pub(crate) const BACKLOG_BYTES: usize = 4 * MAX_COMMIT_BYTES;

/// The limits of one WAL.
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
    /// The limits for a journal with `reserve` bytes set aside. The records pending when the disk fills up must fit into
    /// a third of the reserve.
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
    fn pending_writes_fit_in_the_reserve() {
        let usual =
            Bounds { commit: MAX_COMMIT_BYTES, backlog: BACKLOG_BYTES, pending: MAX_PENDING_BYTES };
        assert_eq!(Bounds::new(0), usual);
        assert_eq!(Bounds::new(192 << 20), usual);
        let small = Bounds { commit: 256 << 10, backlog: 256 << 10, pending: 512 << 10 };
        assert_eq!(Bounds::new(1536 << 10), small);
    }
}
