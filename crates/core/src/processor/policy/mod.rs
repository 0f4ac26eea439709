//! Optional mechanisms outside the kernel. Each is off unless a stage or a graph enables it, with two exceptions:
//! cohort sizes are [tuned](schedule::cohort_tuner) by default, and cohorts [prefetch the next
//! operation](execute::prefetch_next) in any program whose operations exceed the cache.

pub(crate) mod balance;
pub(crate) mod execute;
pub(crate) mod replication;
pub(crate) mod schedule;
