//! Partitions that change their owners.

pub(crate) mod moving;
pub(crate) mod take_over;
