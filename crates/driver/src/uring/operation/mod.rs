//! Operations in the kernel, with the memory that it reads and fills.

pub(crate) mod datagrams;
pub(crate) mod files;
pub(crate) mod inflight;
pub(crate) mod sending;
