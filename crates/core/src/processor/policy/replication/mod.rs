//! Replicas of published values, and the sets of processors that hold them.

pub(crate) mod holders;
pub(crate) mod replicas;
