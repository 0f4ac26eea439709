//! A hierarchical timer wheel with ticks of one millisecond.
//!
//! A server arms a timer for every request and disarms nearly all of them, so arming and disarming cost only a few
//! instructions. Six levels of 64 slots cover two years. A timer beyond that waits in the last slot and is reinserted
//! from there.

use std::task::Waker;

/// The length of a tick, in nanoseconds. A timer fires in the first tick that begins at or after its
/// deadline.
pub(crate) const TICK: u64 = 1_000_000;

const LEVELS: usize = 6;
const SLOTS: usize = 64;
const NONE: u32 = u32::MAX;

pub(crate) struct Timer {
    pub(crate) waker: Option<Waker>,
    tick: u64,
    generation: u32,
    next: u32,
    previous: u32,
    /// The list that contains the entry; `NONE` if the entry is free.
    list: u32,
}

/// The key of a timer. A stale key matches no timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    index: u32,
    generation: u32,
}

pub(crate) struct TimerWheel {
    pub(crate) entries: Vec<Timer>,
    free: Vec<u32>,
    heads: [u32; LEVELS * SLOTS],
    occupied: [u64; LEVELS],
    /// The current tick: all timers before it have fired.
    tick: u64,
}

impl Default for TimerWheel {
    fn default() -> Self {
        let (entries, free, heads) = (Vec::new(), Vec::new(), [NONE; LEVELS * SLOTS]);
        Self { entries, free, heads, occupied: [0; LEVELS], tick: 0 }
    }
}

impl TimerWheel {
    /// Arms a timer that wakes `waker` at `deadline`, in nanoseconds. A deadline in the past fires in
    /// the next [`TimerWheel::expire`].
    pub(crate) fn arm(&mut self, deadline: u64, waker: Waker) -> TimerKey {
        let tick = deadline.div_ceil(TICK).max(self.tick);
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Timer {
                waker: None,
                tick: 0,
                generation: 0,
                next: NONE,
                previous: NONE,
                list: NONE,
            });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.waker = Some(waker);
        entry.tick = tick;
        let generation = entry.generation;
        self.link(index);
        TimerKey { index, generation }
    }

    /// Replaces the waker of a timer, and stores the previous one in `waker`. Returns `false` if the timer has
    /// fired or was disarmed.
    pub(crate) fn replace_waker(&mut self, key: TimerKey, waker: &mut Waker) -> bool {
        match self.entries.get_mut(key.index as usize) {
            Some(Timer { waker: Some(armed), generation, .. }) if *generation == key.generation => {
                std::mem::swap(armed, waker);
                true
            }
            _ => false,
        }
    }

    /// Disarms a timer. Returns its waker, or `None` if it has fired.
    pub(crate) fn disarm(&mut self, key: TimerKey) -> Option<Waker> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let waker = entry.waker.take();
        self.unlink(key.index);
        self.release(key.index);
        waker
    }

    /// The time in nanoseconds at which to call [`TimerWheel::expire`] next. It may be earlier than the tick of the
    /// first deadline, but not later.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut earliest: Option<u64> = None;
        for level in 0..LEVELS {
            if self.occupied[level] != 0 {
                let shift = 6 * level as u32;
                let current = self.tick >> shift;
                let rotated = self.occupied[level].rotate_right((current % 64) as u32);
                let slot = current + u64::from(rotated.trailing_zeros());
                let tick = (slot << shift).max(self.tick);
                earliest = Some(earliest.map_or(tick, |s| s.min(tick)));
            }
        }
        earliest.map(|tick| tick * TICK)
    }

    /// Whether a tick has begun since the last call of [`TimerWheel::expire`]. `now` is in nanoseconds.
    pub(crate) fn has_ticked(&self, now: u64) -> bool {
        now / TICK >= self.tick
    }

    /// Passes the wakers of all timers due at `now` (nanoseconds) to `wake`.
    pub(crate) fn expire(&mut self, now: u64, mut wake: impl FnMut(Waker)) {
        let target = now / TICK;
        while self.tick <= target {
            // Skip empty ticks: advance to the next occupied slot of any level, but not beyond the target.
            match self.next() {
                Some(at) if at / TICK <= target => self.tick = at / TICK,
                _ => {
                    self.tick = target + 1;
                    return;
                }
            }
            self.cascade();
            let slot = (self.tick % 64) as usize;
            while self.heads[slot] != NONE {
                let index = self.heads[slot];
                self.unlink(index);
                let waker = self.entries[index as usize].waker.take();
                self.release(index);
                waker.into_iter().for_each(&mut wake);
            }
            self.tick += 1;
        }
    }

    /// Moves the timers in slots of higher levels that begin now to lower levels.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = 6 * level as u32;
            if self.tick.trailing_zeros() < shift && self.tick != 0 {
                continue;
            }
            let list = level * SLOTS + ((self.tick >> shift) % 64) as usize;
            let mut moved = Vec::new();
            while self.heads[list] != NONE {
                let index = self.heads[list];
                self.unlink(index);
                moved.push(index);
            }
            moved.into_iter().for_each(|index| self.link(index));
        }
    }

    /// Inserts an entry into the list for its distance from now.
    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick;
        let level = (0..LEVELS)
            .find(|level| (tick >> (6 * level)) - (self.tick >> (6 * level)) < 64)
            .unwrap_or(LEVELS - 1);
        let shift = 6 * level as u32;
        // A timer beyond the last level goes into the furthest slot and is reinserted from there.
        let slot = (tick >> shift).min((self.tick >> shift) + 63) % 64;
        let list = level * SLOTS + slot as usize;
        let head = self.heads[list];
        let entry = &mut self.entries[index as usize];
        (entry.list, entry.next, entry.previous) = (list as u32, head, NONE);
        if head != NONE {
            self.entries[head as usize].previous = index;
        }
        self.heads[list] = index;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Timer { next, previous, list, .. } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else {
            self.heads[list as usize] = next;
            if next == NONE {
                self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
            }
        }
        self.entries[index as usize].list = NONE;
    }

    fn release(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.waker = None;
        self.free.push(index);
    }

    /// Disarms all timers and returns their wakers.
    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        let mut wheel = std::mem::take(self);
        wheel.entries.iter_mut().filter_map(|entry| entry.waker.take()).collect()
    }

    /// The number of armed timers.
    pub(crate) fn armed(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u64),
        Disarm(usize),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let span = prop_oneof![0..200u64, 0..20_000u64, 0..80_000_000u64, 0..1u64 << 40];
        prop_oneof![
            span.clone().prop_map(|ms| Step::Arm(ms * TICK + ms % 7)),
            any::<usize>().prop_map(Step::Disarm),
            span.prop_map(|ms| Step::Advance(ms * TICK)),
        ]
    }

    proptest! {
        /// Each timer fires exactly once, not before its deadline, and within a tick after it.
        #[test]
        fn fires_once_and_in_time(steps in proptest::collection::vec(step(), 1..80)) {
            let mut wheel = TimerWheel::default();
            let mut now = 0;
            let mut timers: Vec<(u64, TimerKey, Arc<Count>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Arm(after) => {
                        let count = Arc::new(Count(AtomicUsize::new(0)));
                        let key = wheel.arm(now + after, count.clone().into());
                        timers.push((now + after, key, count));
                    }
                    Step::Disarm(n) if !timers.is_empty() => {
                        let (_, key, count) = timers.swap_remove(n % timers.len());
                        wheel.disarm(key);
                        prop_assert_eq!(count.0.load(Ordering::Relaxed), 0);
                        prop_assert_eq!(Arc::strong_count(&count), 1, "its waker is dropped");
                    }
                    Step::Disarm(_) => (),
                    Step::Advance(by) => {
                        now += by;
                        wheel.expire(now, Waker::wake);
                        timers.retain(|(deadline, _, count)| {
                            let fired = count.0.load(Ordering::Relaxed);
                            if deadline + TICK <= now { assert_eq!(fired, 1, "late: {deadline} at {now}"); }
                            if *deadline > now { assert_eq!(fired, 0, "early: {deadline} at {now}"); }
                            fired == 0
                        });
                    }
                }
                prop_assert_eq!(wheel.armed(), timers.len());
                let first = timers.iter().map(|timer| timer.0).min();
                match (wheel.next(), first) {
                    (Some(next), Some(first)) => prop_assert!(next < first + 2 * TICK),
                    (next, first) => prop_assert_eq!(next.is_some(), first.is_some()),
                }
            }
        }
    }
}
