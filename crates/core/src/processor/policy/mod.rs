//! Mechanisms beside the kernel. Each is off unless a stage or a graph asks for it, with two exceptions: cohort sizes are
//! [tuned](schedule::cohort_tuner) by default, and a cohort [loads the next operation](execute::prefetch_next) in any
//! program whose operations exceed the cache.

pub(crate) mod balance;
pub(crate) mod execute;
pub(crate) mod replication;
pub(crate) mod schedule;
