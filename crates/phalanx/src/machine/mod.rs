//! Properties and services of the machine: cache sizes, memory, limits and clocks.

mod cache;
mod cpu_time;
mod fingerprint;
mod region;
mod rlimit;

pub(crate) use self::cache::second_level_cache;
pub(crate) use self::cpu_time::thread_cpu_time;
pub use self::fingerprint::Fingerprint;
pub(crate) use self::region::with_region;
pub use self::rlimit::raise_open_files;
