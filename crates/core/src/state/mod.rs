//! Access to the state of a stage: under a lock, by partition, and with rebuilding after a panic.

pub(crate) mod exclusive;
pub(crate) mod owned;
pub(crate) mod partition;
pub(crate) mod policy;
pub(crate) mod rebuildable;
