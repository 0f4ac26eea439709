//! How long work waits on a processor: what overload control looks at.
//!
//! The wait of a stage's cohort is the age of the oldest operation that it found. Work that comes
//! together waits for itself, so a cohort's wait alone says nothing: what counts is the *smallest*
//! wait of an interval, since a queue that empties each round is no congestion (folly's form of
//! CoDel). The world outside is looked at as one more stage: what came in during a turn has waited,
//! unseen, for up to that turn. And since a request passes the stages one after the other, their
//! waits are added: a bound on the worst alone would be one on each, and where work is short and
//! the turn long they all wait alike. What waits in the outside's own queues (files for a turn of the
//! driver's, what has come while nothing was taken in) is told of once an interval, and added.
//!
//! One comparison for each cohort and each turn; no clock of its own.

use std::cell::Cell;

use crate::control::interval_min::IntervalMin;
use crate::stage::local::LocalStage;
use crate::world::World;

/// The shortest interval, in nanoseconds. Overload is noticed after a few.
pub(crate) const INTERVAL: u64 = 10_000_000;
/// And the fewest turns: the wait of one alone may be any.
const MIN_TURNS: u32 = 3;
/// Work waits for too long for anything to be tried out on it: half of what admission allows.
const CONGESTED_WAIT: u64 = 7_500_000;

/// Intervals for which a limit counts that nobody has asked about since.
const LIMIT_MEMORY: u64 = 2;

/// The interval under way on a processor, and what the last one came to.
#[derive(Default)]
pub(crate) struct QueueDelay {
    began: Cell<u64>,
    turns: Cell<u32>,
    /// When the last turn began; zero after a sleep.
    turned: Cell<u64>,
    outside: IntervalMin,
    /// How many intervals are over.
    intervals: Cell<u64>,
    wait: Cell<u64>,
    /// The last interval at whose end an admission had a limit; zero for none yet.
    limited: Cell<u64>,
    has_admission: Cell<bool>,
}

impl QueueDelay {
    /// A turn began at `now`. What it has `received` came since the one before, as far as the world does not say
    /// that it has waited for longer; none for a turn that takes nothing in, which tells nothing of the outside.
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

    /// The processor has slept: nothing has waited for its turn.
    pub(crate) fn slept(&self) {
        self.turned.set(0);
    }

    #[cold]
    fn interval_over(&self, now: u64, stages: &[LocalStage], beyond: u64) {
        let inside: u64 = stages.iter().map(|stage| stage.runtime.waits.take()).sum();
        let outside = self.outside.take().saturating_add(beyond);
        self.wait.set(inside.saturating_add(outside));
        self.intervals.set(self.intervals.get() + 1);
        self.turns.set(0);
        self.began.set(now);
    }

    /// The number of the last interval that is over.
    #[inline]
    pub(crate) fn interval(&self) -> u64 {
        self.intervals.get()
    }

    /// Its smallest waits, added over the stages, in nanoseconds.
    pub(crate) fn wait(&self) -> u64 {
        self.wait.get()
    }

    /// An admission limits what is begun, in the interval under way.
    pub(crate) fn note_limit(&self) {
        self.limited.set(self.intervals.get());
    }

    /// Whether work waits for long, or is kept from it by a limit that was there lately.
    pub(crate) fn is_congested(&self) -> bool {
        let limited = self.limited.get();
        self.wait.get() >= CONGESTED_WAIT
            || limited > 0 && self.intervals.get() - limited <= LIMIT_MEMORY
    }

    /// There is an admission here, with a target.
    pub(crate) fn note_admission(&self) {
        self.has_admission.set(true);
    }

    /// Whether there is, or was.
    #[inline]
    pub(crate) fn has_admission(&self) -> bool {
        self.has_admission.get()
    }

    /// When the interval under way began.
    pub(crate) fn began(&self) -> u64 {
        self.began.get()
    }
}
