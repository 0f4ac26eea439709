//! Reports of a program's operation: panics, operation types and their sizes, running operations, traces.

pub(crate) mod operation_sizes;
pub(crate) mod operation_types;
pub(crate) mod profile;
pub(crate) mod recording;
pub(crate) mod report;
pub(crate) mod running;
pub(crate) mod trace;
