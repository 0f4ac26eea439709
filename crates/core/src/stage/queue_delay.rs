//! Queue delay: how long work waits on a processor, the input of overload control.
//!
//! The delay of a cohort is the age of the oldest operation that it found. Operations that arrive
//! together wait for each other, so a single cohort's delay shows no congestion. The *smallest* delay
//! of an interval does, since a queue that empties every round is not congested (as in folly's variant
//! of CoDel). The outside counts as one more stage: input received during a turn has waited, unseen,
//! for up to that turn. A request passes the stages one after the other, so their delays are added.
//! Bounding only the worst delay would bound each stage on its own, and with short work and a long turn
//! all stages wait equally long. The delay in the outside's own queues (the driver's queue of file
//! operations, input left in the kernel) is reported once per interval and added.
//!
//! The cost is one comparison per cohort and per turn; it reads no clock.

use std::cell::Cell;

use crate::control::interval_min::IntervalMin;
use crate::stage::local::LocalStage;
use crate::world::World;

/// The minimum length of an interval, in nanoseconds. Detecting overload takes a few intervals.
pub(crate) const INTERVAL: u64 = 10_000_000;
/// The minimum number of turns in an interval, since the delay of a single turn is arbitrary.
const MIN_TURNS: u32 = 3;
/// The queue delay, in nanoseconds, above which nothing is tried out: half of the delay that admission
/// allows.
const CONGESTED_WAIT: u64 = 7_500_000;

/// The number of intervals for which a limit counts as recent.
const LIMIT_MEMORY: u64 = 2;

/// The current interval of a processor, and the result of the last one.
#[derive(Default)]
pub(crate) struct QueueDelay {
    began: Cell<u64>,
    turns: Cell<u32>,
    /// The start of the last turn; zero after a sleep.
    turned: Cell<u64>,
    outside: IntervalMin,
    /// The number of completed intervals.
    intervals: Cell<u64>,
    wait: Cell<u64>,
    /// The last interval in which an admission had a limit; zero for none.
    limited: Cell<u64>,
}

impl QueueDelay {
    /// Begins a turn at `now`. The input it has `received` arrived since the turn before, unless the
    /// world reports a longer delay. None for a turn without input, which shows nothing of the outside.
    #[inline(always)]
    pub(crate) fn turn(
        &self,
        now: u64,
        received: Option<bool>,
        stages: &[LocalStage],
        world: &impl World,
    ) {
        let before = self.turned.replace(now);
        let turns = self.turns.get() + 1;
        self.turns.set(turns);
        let Some(received) = received else { return };
        self.outside.add(if received && before != 0 { now.saturating_sub(before) } else { 0 });
        if now.saturating_sub(self.began.get()) >= INTERVAL && turns >= MIN_TURNS {
            self.interval_over(now, stages, world.external_queue_delay());
        }
    }

    /// Records that the processor has slept, so no input has waited for a turn.
    pub(crate) fn slept(&self) {
        self.turned.set(0);
    }

    #[cold]
    fn interval_over(&self, now: u64, stages: &[LocalStage], beyond: u64) {
        let inside: u64 = stages.iter().map(|stage| stage.cold.waits.take()).sum();
        let outside = self.outside.take().saturating_add(beyond);
        self.wait.set(inside.saturating_add(outside));
        self.intervals.set(self.intervals.get() + 1);
        self.turns.set(0);
        self.began.set(now);
    }

    /// The number of the last completed interval.
    #[inline]
    pub(crate) fn interval(&self) -> u64 {
        self.intervals.get()
    }

    /// The queue delay of that interval: the smallest delays, added over the stages, in nanoseconds.
    pub(crate) fn wait(&self) -> u64 {
        self.wait.get()
    }

    /// Records that an admission has a limit in the current interval.
    pub(crate) fn note_limit(&self) {
        self.limited.set(self.intervals.get());
    }

    /// Whether the queue delay is long, or a recent limit keeps it short.
    pub(crate) fn is_congested(&self) -> bool {
        let limited = self.limited.get();
        self.wait.get() >= CONGESTED_WAIT
            || limited > 0 && self.intervals.get() - limited <= LIMIT_MEMORY
    }

    /// The start of the current interval.
    pub(crate) fn began(&self) -> u64 {
        self.began.get()
    }
}
