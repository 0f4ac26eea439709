//! Blocking calls on helper threads.

pub(crate) mod jobs;
pub(crate) mod pool;
