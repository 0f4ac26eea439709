//! Time of day, and the processor time of a thread.

use std::time::Duration;

/// Processor time of the calling thread, in nanoseconds.
pub(crate) fn worked() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// Time of day since 1970; in a simulation, that of the simulated world. Each call reads the system clock.
/// For durations use [`now`](crate::time::now), which costs nothing.
///
/// # Panics
/// Outside of a processor of a running [`Runtime`](crate::Runtime).
pub fn time_of_day() -> Duration {
    crate::io::with(|io| io.driver(|driver| driver.time_of_day()))
}
