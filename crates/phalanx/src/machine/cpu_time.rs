//! The CPU time of a thread.

/// The CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_time() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}
