//! Replicas of published values, and the processors that have one.

pub(crate) mod holders;
pub(crate) mod replicas;
