//! Clocks: a [`World`] for processors without I/O, the processor time of a thread, and the time-stamp counter.

use std::cell::Cell;
use std::thread;
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

/// A [`Clock`] for a processor that has a thread of its own, and sleeps until the thread is unparked. Counts turns and
/// sleeps.
pub(crate) struct ParkingClock {
    clock: Clock,
    pub(crate) turns: Cell<u64>,
    pub(crate) sleeps: Cell<u64>,
}

impl ParkingClock {
    pub(crate) fn new() -> Self {
        Self { clock: Clock::new(), turns: Cell::default(), sleeps: Cell::default() }
    }
}

impl World for ParkingClock {
    fn now(&self) -> u64 {
        self.clock.now()
    }
    fn reap(&self) -> bool {
        self.turns.set(self.turns.get() + 1);
        false
    }
    fn submit(&self) {}
    fn park(&self, timeout: Option<u64>) {
        self.sleeps.set(self.sleeps.get() + 1);
        match timeout {
            Some(timeout) => thread::park_timeout(Duration::from_nanos(timeout)),
            None => thread::park(),
        }
    }
    fn thread_cpu_time(&self) -> u64 {
        self.clock.thread_cpu_time()
    }
}

/// Processor time of this thread, without the time slices of other threads.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Long enough to make the cost of the two readings negligible.
const CALIBRATION_TIME: Duration = Duration::from_millis(100);

/// Cycles per microsecond. Without a reliable time-stamp counter, nanoseconds.
pub(crate) fn cycles_per_microsecond() -> f64 {
    let clock = quanta::Clock::new();
    let (begun, first) = (Instant::now(), clock.raw());
    std::thread::sleep(CALIBRATION_TIME);
    let counted = clock.raw() - first;
    counted as f64 / (begun.elapsed().as_nanos() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_plausible() {
        let counted = super::cycles_per_microsecond();
        // From nanoseconds to the fastest processors.
        assert!((500.0..10_000.0).contains(&counted), "{counted}");
    }
}
