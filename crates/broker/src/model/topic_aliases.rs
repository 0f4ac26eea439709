//! Limits the memory of a connection's topic aliases.

/// Maximum average bytes of topic per alias, over all aliases that a connection may define.
const MAX_AVERAGE_BYTES: usize = 1024;

/// Whether the topics of a connection with up to `most` aliases may have this total size. A single topic may have any
/// length.
pub(crate) fn may_have_alias(most: u16, bytes: usize) -> bool {
    bytes <= (usize::from(most) * MAX_AVERAGE_BYTES).max(u16::MAX.into())
}
