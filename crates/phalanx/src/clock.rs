//! The time of day, and that of a thread.

use std::time::Duration;

/// Nanoseconds that this thread has been running, without those in which the machine ran others.
pub(crate) fn worked() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// The time of day, since 1970: the machine's, or in a simulation the simulated world's. Asks the
/// machine each time; for spans of time take [`now`](crate::time::now), which costs nothing.
///
/// # Panics
/// Outside of a processor of a running [`Runtime`](crate::Runtime).
pub fn time_of_day() -> Duration {
    crate::io::with(|io| io.driver(|driver| driver.time_of_day()))
}
