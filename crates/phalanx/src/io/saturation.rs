//! Whether a processor is saturated: it has not been idle for a while.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time without an idle moment after which a processor is saturated.
const SATURATED_AFTER: Duration = Duration::from_millis(4);
/// The turns within this time. A single long operation does not saturate a processor.
const MIN_TURNS: u32 = 3;

/// A processor's flag, in a cache line of its own.
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
    /// The time of the first turn since it was idle; none before that turn.
    since: Cell<Option<Duration>>,
    turns: Cell<u32>,
}

impl SaturationProbe {
    pub(crate) fn new(flags: Arc<Saturated>, processor: usize) -> Self {
        Self { flags, processor, since: Cell::new(None), turns: Cell::new(0) }
    }

    /// Counts a turn. Returns whether the processor is saturated now and was not before.
    #[inline]
    pub(crate) fn turn(&self, now: Duration) -> bool {
        let Some(since) = self.since.get() else {
            self.since.set(Some(now));
            return false;
        };
        self.turns.set(self.turns.get().saturating_add(1));
        let is_saturated =
            now.saturating_sub(since) >= SATURATED_AFTER && self.turns.get() >= MIN_TURNS;
        let flag = &self.flags.0[self.processor].0;
        if !is_saturated || flag.load(Ordering::Relaxed) {
            return false;
        }
        flag.store(true, Ordering::Relaxed);
        true
    }

    /// Records that the processor is idle: it polls, sleeps or waits for another one.
    #[inline]
    pub(crate) fn idle(&self) {
        self.since.set(None);
        self.turns.set(0);
        let flag = &self.flags.0[self.processor].0;
        if flag.load(Ordering::Relaxed) {
            flag.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_saturated_after_several_turns_without_an_idle_moment() {
        let flags = Saturated::new(2);
        let probe = SaturationProbe::new(flags.clone(), 1);
        let turn = |ms| probe.turn(Duration::from_millis(ms));
        assert!(!turn(0) && !turn(10), "one long turn");
        assert!(!turn(11) && turn(12) && !turn(13), "reported once");
        assert!(flags.is_set(1) && !flags.is_set(0));
        probe.idle();
        assert!(!flags.is_set(1));
        assert!(!turn(20) && !turn(21) && !turn(22) && !turn(23), "too short");
        assert!(turn(24));
    }
}
