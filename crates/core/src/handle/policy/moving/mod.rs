//! Partitions that move between processors, and operations that run on a processor other than their caller's.

pub(crate) mod move_partition;
pub(crate) mod roaming;
pub(crate) mod take_over;
