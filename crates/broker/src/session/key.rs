//! Where a client's session is.

/// A session among all: the partition that has it, its place there, and which of those that have had the
/// place it is. A key outlives its session; it is nobody's then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub(crate) partition: u16,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}
