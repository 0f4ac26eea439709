//! Time: that of a processor which only computes, and that of a thread.

use std::time::{Duration, Instant};

use phalanx_core::World;
use rustix::time::{ClockId, clock_gettime};

/// The world of a processor that does no I/O: real time.
pub(crate) struct Clock(Instant);

impl Clock {
    /// Begins now.
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
    fn worked(&self) -> u64 {
        thread_time().as_nanos() as u64
    }
}

/// How long this thread has been running: what something takes without the turns that others had meanwhile.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
