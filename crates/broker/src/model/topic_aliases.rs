//! The memory of the topic aliases of a connection.

/// Bytes of topics for each alias, on average over all that a connection may have.
const MAX_AVERAGE_BYTES: usize = 1024;

/// Whether a connection with up to `most` aliases may have topics of this size in all. A single one may be of any length.
pub(crate) fn may_have_alias(most: u16, bytes: usize) -> bool {
    bytes <= (usize::from(most) * MAX_AVERAGE_BYTES).max(u16::MAX.into())
}
