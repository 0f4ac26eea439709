//! Partitions that move to another processor, and operations that run on another one than their caller's.

pub(crate) mod move_partition;
pub(crate) mod roaming;
pub(crate) mod take_over;
