//! Processes, cores and signals of the system.

pub(crate) mod cachegrind;
pub(crate) mod callgrind;
pub(crate) mod cores;
pub mod hardware;
pub(crate) mod interrupt;
pub(crate) mod memory_limit;
pub(crate) mod process;
pub mod procfs;
pub(crate) mod programs;
