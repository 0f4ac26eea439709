//! Calls that concern the whole process, beside I/O.

pub(crate) mod affinity;
pub(crate) mod allocator;
pub(crate) mod signal;
