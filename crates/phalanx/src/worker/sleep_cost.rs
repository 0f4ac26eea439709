//! Measurement of the CPU time that a park costs.
//!
//! Reading a thread's CPU time takes a system call, so only one in [`SAMPLE_INTERVAL`] parks is measured.

use std::cell::Cell;

/// One in this number of parks is measured.
const SAMPLE_INTERVAL: u32 = 64;
/// The plausible range of a measurement, in nanoseconds. Values outside it are caused by signals or a slow clock.
const RANGE: (u64, u64) = (500, 20_000);
/// Assumed cost before the first measurement.
const FIRST: u64 = 3_000;

/// Moving average of the cost.
pub(crate) struct SleepCost {
    ns: Cell<u64>,
    sleeps: Cell<u32>,
}

impl Default for SleepCost {
    fn default() -> Self {
        Self { ns: Cell::new(FIRST), sleeps: Cell::new(0) }
    }
}

impl SleepCost {
    #[inline]
    pub(crate) fn ns(&self) -> u64 {
        self.ns.get()
    }

    /// Runs `sleep`, and measures every [`SAMPLE_INTERVAL`]th call.
    pub(crate) fn measured(&self, sleep: impl FnOnce()) {
        self.measured_by(crate::machine::thread_cpu_time, sleep);
    }

    fn measured_by(&self, clock: impl Fn() -> u64, sleep: impl FnOnce()) {
        let sleeps = self.sleeps.get();
        self.sleeps.set(sleeps.wrapping_add(1));
        if !sleeps.is_multiple_of(SAMPLE_INTERVAL) {
            return sleep();
        }
        let before = clock();
        sleep();
        let cost = clock().saturating_sub(before).clamp(RANGE.0, RANGE.1);
        self.ns.set((3 * self.ns.get() + cost) / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_sleeps_are_measured() {
        let (cost, time, checks) = (SleepCost::default(), Cell::new(0), Cell::new(0));
        let clock = || {
            checks.set(checks.get() + 1);
            time.get()
        };
        for _ in 0..64 * SAMPLE_INTERVAL {
            cost.measured_by(clock, || time.set(time.get() + 1_500));
        }
        assert_eq!(checks.get(), 2 * 64);
        assert!((1_500..1_600).contains(&cost.ns()), "{}", cost.ns());
        for _ in 0..64 * SAMPLE_INTERVAL {
            cost.measured_by(clock, || time.set(time.get() + 1_000_000));
        }
        assert!(cost.ns() <= RANGE.1);
    }
}
