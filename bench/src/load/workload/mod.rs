//! The workload: the times at which requests begin, and their paths.

pub(crate) mod pace;
pub(crate) mod surge;
pub(crate) mod visits;
pub(crate) mod zipf;
