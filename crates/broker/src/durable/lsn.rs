//! Positions in the write-ahead log.

/// Log sequence number: a position in the log. It is durable once all changes up to it are on disk. 0 is
/// always durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lsn(pub(super) u64);

#[cfg(test)]
impl From<u64> for Lsn {
    fn from(lsn: u64) -> Self {
        Self(lsn)
    }
}
