//! Clocks: a [`World`] for processors without I/O, and the processor time of a thread.

use std::time::{Duration, Instant};

use phalanx_core::World;
use rustix::time::{ClockId, clock_gettime};

/// A [`World`] for processors without I/O; its time is real time.
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts the clock.
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl World for Clock {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    fn reap(&self) -> bool {
        false
    }
    fn submit(&self) {}
    fn park(&self, _timeout: Option<u64>) {}
    fn thread_cpu_time(&self) -> u64 {
        thread_time().as_nanos() as u64
    }
}

/// Processor time of this thread, without the time slices of other threads.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
