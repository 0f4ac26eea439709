//! Operations in the kernel and on helper threads, with the memory that they read and fill.

pub(crate) mod datagrams;
pub(crate) mod file_sends;
pub(crate) mod files;
pub(crate) mod inflight;
pub(crate) mod multishot;
pub(crate) mod sending;
