//! Detection of saturated processors, which have not been idle for a while.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time without an idle moment after which a processor may be saturated.
const BUSY_FOR: Duration = Duration::from_millis(3);
/// The time for which a busy processor must use three quarters of its core to count as saturated. If it uses less, it
/// is waiting for a core that other programs use.
const CONFIRMED_AFTER: Duration = Duration::from_millis(1);
/// The minimum number of turns while busy, so that a single long operation does not count as saturation.
const MIN_TURNS: u32 = 3;

/// A processor's flag, in its own cache line.
#[derive(Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// The flags of all processors.
pub(crate) struct Saturated(Box<[Flag]>);

impl Saturated {
    pub(crate) fn new(processors: usize) -> Arc<Self> {
        Arc::new(Self((0..processors).map(|_| Flag::default()).collect()))
    }

    pub(crate) fn processors(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_set(&self, processor: usize) -> bool {
        self.0[processor].0.load(Ordering::Relaxed)
    }
}

/// One processor's part.
pub(crate) struct SaturationProbe {
    flags: Arc<Saturated>,
    processor: usize,
    /// The time of the first turn since the processor was idle; `None` before that turn.
    since: Cell<Option<Duration>>,
    turns: Cell<u32>,
    /// The start of the confirmation, and the thread's CPU time then.
    confirming: Cell<Option<(Duration, u64)>>,
}

impl SaturationProbe {
    pub(crate) fn new(flags: Arc<Saturated>, processor: usize) -> Self {
        let (since, confirming) = (Cell::new(None), Cell::new(None));
        Self { flags, processor, since, turns: Cell::new(0), confirming }
    }

    /// Counts a turn. Returns whether the processor has just become saturated. `cpu_time` returns the thread's CPU time
    /// in nanoseconds.
    #[inline]
    pub(crate) fn turn(&self, now: Duration, cpu_time: impl FnOnce() -> u64) -> bool {
        let Some(since) = self.since.get() else {
            self.since.set(Some(now));
            return false;
        };
        self.turns.set(self.turns.get().saturating_add(1));
        if now.saturating_sub(since) < BUSY_FOR || self.turns.get() < MIN_TURNS {
            return false;
        }
        self.confirms(now, cpu_time)
    }

    #[cold]
    fn confirms(&self, now: Duration, cpu_time: impl FnOnce() -> u64) -> bool {
        let flag = &self.flags.0[self.processor].0;
        if flag.load(Ordering::Relaxed) {
            return false;
        }
        let begin = self.confirming.get();
        let elapsed = begin.map(|(at, _)| now.saturating_sub(at));
        if elapsed.is_some_and(|elapsed| elapsed < CONFIRMED_AFTER) {
            return false;
        }
        let cpu_time = cpu_time();
        self.confirming.set(Some((now, cpu_time)));
        let (Some((_, before)), Some(elapsed)) = (begin, elapsed) else { return false };
        let used = Duration::from_nanos(cpu_time.saturating_sub(before));
        if used < elapsed * 3 / 4 {
            return false;
        }
        flag.store(true, Ordering::Relaxed);
        true
    }

    /// Records that the processor is idle, that is, polls, sleeps or waits for another one.
    #[inline]
    pub(crate) fn idle(&self) {
        self.since.set(None);
        self.turns.set(0);
        self.confirming.set(None);
        let flag = &self.flags.0[self.processor].0;
        if flag.load(Ordering::Relaxed) {
            flag.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a turn at this time, in milliseconds, when the thread has used this CPU time, in microseconds.
    fn turn(probe: &SaturationProbe, ms: u64, cpu_us: u64) -> bool {
        probe.turn(Duration::from_millis(ms), || cpu_us * 1_000)
    }

    #[test]
    fn a_processor_is_saturated_after_several_turns_without_an_idle_moment() {
        let flags = Saturated::new(2);
        let probe = SaturationProbe::new(flags.clone(), 1);
        let turn = |ms| turn(&probe, ms, 1_000 * ms);
        assert!(!turn(0) && !turn(10), "one long turn");
        assert!(!turn(11) && !turn(12), "not confirmed yet");
        assert!(turn(13) && !turn(14), "reported once");
        assert!(flags.is_set(1) && !flags.is_set(0));
        probe.idle();
        assert!(!flags.is_set(1));
        assert!(!turn(20) && !turn(21) && !turn(22) && !turn(23), "too short");
        assert!(turn(24));
    }

    #[test]
    fn a_processor_that_waits_for_a_core_is_not_saturated() {
        let flags = Saturated::new(1);
        let probe = SaturationProbe::new(flags.clone(), 0);
        for ms in 0..20 {
            assert!(!turn(&probe, ms, 500 * ms), "{ms}");
        }
        assert!(!turn(&probe, 20, 10_000) && turn(&probe, 21, 11_000), "it has a core of its own");
    }
}
