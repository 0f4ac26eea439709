//! Calls other than I/O that concern the whole process.

pub(crate) mod affinity;
pub(crate) mod allocator;
pub(crate) mod signal;

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod sandbox;
