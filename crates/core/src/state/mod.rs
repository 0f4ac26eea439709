//! How operations reach a stage's state: under a lock, by partition, and rebuilt after a panic.

pub(crate) mod exclusive;
pub(crate) mod partition;
pub(crate) mod rebuildable;
