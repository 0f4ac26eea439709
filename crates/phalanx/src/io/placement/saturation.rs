//! Detection of saturated processors, which have not been idle for a while.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The limits of a processor that has been calm, and of another one: the time without an idle moment after which it may
/// be saturated, and the minimum number of turns in that time, so that a single long operation does not count as
/// saturation.
const CALM_LIMITS: (Duration, u32) = (LONG_BUSY, 1);
const LIMITS: (Duration, u32) = (Duration::from_millis(3), 3);
/// The time for which a busy processor must use three quarters of its core to count as saturated. If it uses less, it
/// is waiting for a core that other programs use.
const CONFIRMED_AFTER: Duration = Duration::from_millis(1);
/// A processor is calm if it was never busy for [`LONG_BUSY`] in the last [`MIN_CALM`]. With a high but steady load, it
/// is busy that long every now and then, and longer times occur by chance.
const LONG_BUSY: Duration = Duration::from_millis(1);
const MIN_CALM: Duration = Duration::from_secs(1);

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
    /// The number of turns since then, the start of the latest one, and the length of the longest one.
    turns: Cell<u32>,
    latest: Cell<Duration>,
    longest: Cell<Duration>,
    /// The start of the confirmation, and the thread's CPU time then.
    confirming: Cell<Option<(Duration, u64)>>,
    /// The last time at which it had been busy for [`LONG_BUSY`], and whether it was calm when it became busy.
    long_busy_at: Cell<Option<Duration>>,
    was_calm: Cell<bool>,
}

impl SaturationProbe {
    pub(crate) fn new(flags: Arc<Saturated>, processor: usize) -> Self {
        Self {
            flags,
            processor,
            since: Cell::default(),
            turns: Cell::default(),
            latest: Cell::default(),
            longest: Cell::default(),
            confirming: Cell::default(),
            long_busy_at: Cell::default(),
            was_calm: Cell::default(),
        }
    }

    /// Counts a turn that starts at `now`. Returns whether the processor has just become saturated. `cpu_time` returns
    /// the thread's CPU time in nanoseconds.
    #[inline]
    pub(crate) fn turn(&self, now: Duration, cpu_time: impl FnOnce() -> u64) -> bool {
        let length = now.saturating_sub(self.latest.replace(now));
        let Some(since) = self.since.get() else {
            self.since.set(Some(now));
            let before = self.long_busy_at.get();
            self.was_calm.set(before.is_none_or(|at| now.saturating_sub(at) >= MIN_CALM));
            return false;
        };
        self.turns.set(self.turns.get().saturating_add(1));
        self.longest.set(self.longest.get().max(length));
        let busy = now.saturating_sub(since);
        let exceeds = |limits: (Duration, u32)| busy >= limits.0 && self.turns.get() >= limits.1;
        if self.was_calm.get() && exceeds(CALM_LIMITS) {
            // After a single long operation the turns become shorter, because the load is less than the processor can
            // do.
            let is_falling = length < self.longest.get() / 2;
            if self.confirm(now, is_falling, cpu_time) {
                return true;
            }
            if exceeds(LIMITS) {
                self.was_calm.set(false);
                self.confirming.set(None);
            }
            return false;
        }
        exceeds(LIMITS) && self.confirm(now, false, cpu_time)
    }

    /// Begins or continues the confirmation. Returns whether the processor has just become saturated, which it has not
    /// if the turns become shorter (`is_falling`).
    #[cold]
    fn confirm(&self, now: Duration, is_falling: bool, cpu_time: impl FnOnce() -> u64) -> bool {
        let flag = &self.flags.0[self.processor].0;
        if flag.load(Ordering::Relaxed) {
            return false;
        }
        let start = self.confirming.get();
        let elapsed = start.map(|(at, _)| now.saturating_sub(at));
        if elapsed.is_some_and(|elapsed| elapsed < CONFIRMED_AFTER || is_falling) {
            return false;
        }
        let cpu_time = cpu_time();
        self.confirming.set(Some((now, cpu_time)));
        let (Some((_, before)), Some(elapsed)) = (start, elapsed) else { return false };
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
        let latest = self.latest.get();
        if self.since.take().is_some_and(|since| latest.saturating_sub(since) >= LONG_BUSY) {
            self.long_busy_at.set(Some(latest));
        }
        self.turns.set(0);
        self.longest.set(Duration::ZERO);
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
        probe.long_busy_at.set(Some(Duration::ZERO));
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
    fn a_processor_that_was_calm_is_saturated_earlier() {
        let flags = Saturated::new(1);
        let probe = SaturationProbe::new(flags.clone(), 0);
        let turn = |ms| turn(&probe, ms, 1_000 * ms);
        assert!(!turn(0) && !turn(1) && turn(2));
        probe.idle();
        assert!(!turn(1_001) && !turn(1_002) && !turn(1_003), "it is not calm");
        probe.idle();
        assert!(!turn(2_003) && !turn(2_004) && turn(2_005));
        probe.idle();
        assert!(!turn(3_005) && !turn(3_015) && !turn(3_018) && !turn(3_019), "a long operation");
        assert!(!turn(3_020) && turn(3_021), "it has lasted");
    }

    /// Counts how often a processor is saturated in 40 s at this load, with operations of 20 µs on average and one of
    /// 10 ms every five seconds. If `is_calm` is not set, it never counts as calm.
    fn saturations(load: f64, is_calm: bool) -> u32 {
        let flags = Saturated::new(1);
        let probe = SaturationProbe::new(flags.clone(), 0);
        let mut random = 88_172_645_463_325_252_u64;
        let mut draw = |mean: f64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            -(((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64).ln() * mean
        };
        let (mut now, mut next, mut long, mut count) = (0.0, 0.0, 5.0, 0);
        while now < 40.0 {
            let mut length = 0.0;
            while next <= now {
                next += draw(20e-6 / load);
                length += draw(20e-6);
            }
            if length > 0.0 && now > long {
                (long, length) = (long + 5.0, length + 0.01);
            }
            let at = Duration::from_secs_f64(now);
            count += u32::from(probe.turn(at, || at.as_nanos() as u64));
            if length == 0.0 {
                probe.idle();
                if !is_calm {
                    probe.long_busy_at.set(Some(at));
                }
            }
            now = if length > 0.0 { now + length } else { next };
        }
        count
    }

    #[test]
    fn a_steady_load_saturates_a_calm_processor_no_more_often() {
        for load in [0.1, 0.3, 0.5, 0.6, 0.7, 0.78] {
            let [calm, other] = [true, false].map(|is_calm| saturations(load, is_calm));
            assert!(calm <= other + 1, "{load}: {calm} instead of {other}");
        }
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
