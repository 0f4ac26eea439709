//! Queue delay: how long work waits on a processor. It is the input of overload control.
//!
//! The delay of a cohort is the age of the oldest operation that it found. The queue delay of a processor is the sum
//! over its stages of the minimum delay observed in an interval (CoDel as in folly): a queue that drains once per
//! interval is not congested. The delays are added because requests pass the stages one after the other. With short
//! work and a long turn, all stages wait equally long, so a bound on the maximum instead of the sum would not bound the
//! delay of a request. Input counts as another stage. Its delay is at most one turn, plus the delay that the world
//! reports once per interval (the driver's queue of file operations, and input left in the kernel).
//!
//! The cost is one comparison per cohort and per turn. No clock is read.

use std::cell::Cell;

use crate::control::interval_min::IntervalMin;
use crate::stage::local::LocalStage;
use crate::world::World;

/// The minimum length of an interval, in nanoseconds. Detecting overload takes a few intervals.
pub(crate) const INTERVAL: u64 = 10_000_000;
/// The minimum number of turns in an interval, because the delay of a single turn is arbitrary.
const MIN_TURNS: u32 = 3;
/// The queue delay, in nanoseconds, above which the cohort tuner starts no trials: half of the default target of
/// admission.
const CONGESTED_WAIT: u64 = 7_500_000;

/// The number of intervals for which an admission limit counts as recent.
const LIMIT_MEMORY: u64 = 2;

/// The current interval of a processor, and the result of the last one.
#[derive(Default)]
pub(crate) struct QueueDelay {
    interval_start: Cell<u64>,
    turns: Cell<u32>,
    /// The start of the last turn; zero after the processor was parked.
    turn_start: Cell<u64>,
    external: IntervalMin,
    /// The number of completed intervals.
    intervals: Cell<u64>,
    wait: Cell<u64>,
    /// The last interval in which an admission had a limit; zero for none.
    limited: Cell<u64>,
}

impl QueueDelay {
    /// Begins a turn at `now`. The input that it has `received` arrived after the previous turn began, unless the world
    /// reports a longer delay. `None` if the turn reaps no input, because then the external delay is unknown.
    #[inline(always)]
    pub(crate) fn turn(
        &self,
        now: u64,
        received: Option<bool>,
        stages: &[LocalStage],
        world: &impl World,
    ) {
        let before = self.turn_start.replace(now);
        let turns = self.turns.get() + 1;
        self.turns.set(turns);
        let Some(received) = received else { return };
        self.external.add(if received && before != 0 { now.saturating_sub(before) } else { 0 });
        if now.saturating_sub(self.interval_start.get()) >= INTERVAL && turns >= MIN_TURNS {
            self.interval_over(now, stages, world.external_queue_delay());
        }
    }

    /// Records that the processor was parked, so no input has waited for a turn.
    pub(crate) fn parked(&self) {
        self.turn_start.set(0);
    }

    #[cold]
    fn interval_over(&self, now: u64, stages: &[LocalStage], external: u64) {
        let stages: u64 = stages.iter().map(|stage| stage.cold.queue_delay.take()).sum();
        let external = self.external.take().saturating_add(external);
        self.wait.set(stages.saturating_add(external));
        self.intervals.set(self.intervals.get() + 1);
        self.turns.set(0);
        self.interval_start.set(now);
    }

    /// The number of the last completed interval.
    #[inline]
    pub(crate) fn interval(&self) -> u64 {
        self.intervals.get()
    }

    /// The queue delay of that interval, in nanoseconds: the sum of the minimum delays of all stages.
    pub(crate) fn wait(&self) -> u64 {
        self.wait.get()
    }

    /// Records that an admission has a limit in the current interval.
    pub(crate) fn note_limit(&self) {
        self.limited.set(self.intervals.get());
    }

    /// Whether the queue delay is long, or only kept short by a recent admission limit.
    pub(crate) fn is_congested(&self) -> bool {
        let limited = self.limited.get();
        self.wait.get() >= CONGESTED_WAIT
            || limited > 0 && self.intervals.get() - limited <= LIMIT_MEMORY
    }

    /// The start of the current interval.
    pub(crate) fn interval_start(&self) -> u64 {
        self.interval_start.get()
    }
}
