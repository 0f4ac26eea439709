//! Partitions that change owners.

pub(crate) mod moving;
pub(crate) mod take_over;
