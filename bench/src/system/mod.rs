//! Processes, cores and signals of the system.

pub(crate) mod cachegrind;
pub(crate) mod callgrind;
pub(crate) mod cores;
pub(crate) mod hardware;
pub(crate) mod interrupt;
pub(crate) mod memory_limit;
pub(crate) mod process;
pub(crate) mod procfs;

pub(crate) use cores::{Bound, Cores};
pub(crate) use hardware::{Events, HardwareCounters, Part};
pub(crate) use interrupt::{install_signal_handlers, interrupted, is_interrupted};
pub(crate) use memory_limit::MemoryLimit;
pub(crate) use process::{Group, Process, ReservedPort, START_TIMEOUT, listens};
pub(crate) use procfs::{resident_bytes, run_time, user_and_system};
