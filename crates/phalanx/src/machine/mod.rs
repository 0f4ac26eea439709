//! Properties and services of the machine: cache sizes, memory, limits and clocks.

mod cache;
mod cpu_time;
mod fingerprint;
mod region;
mod rlimit;

use std::num::NonZero;

use phalanx_core::Graph;

use self::cache::second_level_cache;
pub(crate) use self::cpu_time::thread_cpu_time;
pub use self::fingerprint::Fingerprint;
pub(crate) use self::region::with_region;
pub use self::rlimit::raise_open_files;

/// Passes the machine's properties to the graph. `cache_bytes` overrides the size of the second-level cache, unless it
/// is zero. Returns the number of cores.
pub(crate) fn declare_machine(graph: &mut Graph, cache_bytes: usize) -> usize {
    graph.measured_cache_bytes(match cache_bytes {
        0 => second_level_cache(),
        bytes => bytes,
    });
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    graph.measured_cores(cores);
    cores
}
