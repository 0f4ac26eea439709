//! The size of cohorts where a stage does not declare it: a bound from bytes at first, then what the
//! [ladder](crate::control::cohort_ladder) finds, on each processor for itself.
//!
//! The bound is as many operations as the second-level cache has room for with what each of them
//! occupies, from 16 to 256. The ladder is told, slice by slice, how many operations were started and
//! how long the turns took in which any ran; it says which rung comes next. All stages that leave
//! their cohorts to the runtime follow the same rung: their requests pass through one cache.

use std::cell::{Cell, RefCell};

use crate::control::cohort_ladder::{Ladder, RUNGS, Slice, is_another};
use crate::handle::graph::{Declared, Graph, StageOptions};
use crate::memory::slab::stride;
use crate::metrics::counters::Counter;
use crate::processor::processor::{LocalStage, Processor};
use crate::processor::turn::World;

/// Assumed of a second-level cache that nobody has told of.
const CACHE: usize = 1 << 20;
/// The bound from bytes is within these.
const BOUNDS: (usize, usize) = (16, 256);
/// Turns between two looks while a rung rests.
const LOOK: u32 = 256;
/// A mix is another one when so much of it is at other stages.
const SHIFTED: f64 = 0.25;

/// What a graph says about the cohorts of stages that declare no size.
#[derive(Clone, Copy)]
pub(crate) struct Cohorts {
    /// Bytes of a processor's second-level cache, if somebody has told.
    cache: Option<usize>,
    /// Whether other sizes are tried.
    found: bool,
}

impl Cohorts {
    pub(crate) fn cache(self) -> usize {
        self.cache.unwrap_or(CACHE)
    }

    pub(crate) const DEFAULT: Self = Self { cache: None, found: true };
}

impl Graph {
    /// Whether each processor finds how large the cohorts should be of stages that declare no
    /// [`max_cohort`](StageOptions::max_cohort); it does unless it is told not to. Now and then it
    /// tries sizes from 1 to 512, for a fiftieth of its work at most, and keeps the smallest that
    /// costs as little as any ([`LadderView`]). Where that is 1, calls run inside of their callers, as
    /// those of [`direct`](StageOptions::direct) stages do. Nothing is tried while work waits for long
    /// or an [`Admission`](crate::Admission) limits what is begun, nor where little comes together.
    /// Stages that [hold](StageOptions::hold) and cohort operations keep their size.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// graph.find_cohorts(false);
    /// let parse = graph.shared("parse", ()); // as many as the cache has room for
    /// # let _ = parse;
    /// ```
    pub fn find_cohorts(&mut self, found: bool) {
        self.cohorts.found = found;
    }

    /// The bytes of a processor's second-level cache, from which the runtime derives how many
    /// operations a cohort has at most where a stage does not say: as many as there is room for,
    /// from 16 to 256. Without it the runtime asks the machine; where nobody can tell it is one MiB.
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn cache_bytes(&mut self, bytes: usize) {
        assert!(bytes > 0, "a cache has some bytes");
        self.cohorts.cache = Some(bytes);
    }

    /// The same, where nobody has said it by [`cache_bytes`](Self::cache_bytes): for a runtime that
    /// has asked the machine. Zero says nothing.
    pub fn measured_cache_bytes(&mut self, bytes: usize) {
        self.cohorts.cache = self.cohorts.cache.or((bytes > 0).then_some(bytes));
    }
}

impl StageOptions<'_> {
    /// The most operations in a cohort (MaxBatchSize in tr2001 §5.1). Without it there are as many as
    /// the [cache](Graph::cache_bytes) has room for, or as many as the runtime
    /// [finds](Graph::find_cohorts) good. 64 is good for stages that touch sockets: beyond that their
    /// kernel state leaves the cache again.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn max_cohort(mut self, count: usize) -> Self {
        assert!(count > 0, "a cohort has at least one operation");
        self.max_cohort = Some(count);
        self
    }
}

/// More than there are stages.
const STAGES: usize = 64;
/// What part of the operations is at which stage.
type Shares = [f64; STAGES];

/// What one processor knows of the stages that leave their cohorts to it.
pub(crate) struct Auto {
    /// A bit each.
    stages: u64,
    /// Those whose calls are run inside of their callers whatever the rung.
    always_direct: u64,
    cache: usize,
    ladder: RefCell<Ladder>,
    /// When the turn began, and whether anything ran in the one before it.
    turn_began: Cell<u64>,
    ran: Cell<bool>,
    /// Turns until the next look.
    until_look: Cell<u32>,
    /// Of this slice: nanoseconds and turns in which something ran.
    time: Cell<u64>,
    turns: Cell<u64>,
    /// How long the thread had worked when it began.
    worked: Cell<u64>,
    /// What each stage had started when the slice began.
    before: Cell<[u64; STAGES]>,
    /// The shares of the stages, and the operations of a turn, after the last trial.
    known: Cell<Option<(Shares, f64)>>,
}

/// What a processor's ladder has found, for others to read.
#[derive(Default, Debug)]
pub(crate) struct LadderCounters {
    /// The rung in use; zero before the first trial.
    pub(crate) rung: Counter,
    pub(crate) kept: Counter,
    pub(crate) trials: Counter,
    pub(crate) trying: Counter,
    /// Picoseconds for an operation.
    pub(crate) costs: [Counter; RUNGS.len()],
}

/// What a processor's ladder has found; see [`Graph::find_cohorts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LadderView {
    /// The rung in use: the most operations in a cohort of the stages that declare none; at 1 their
    /// calls run inside of their callers. Zero before the first trial.
    pub rung: u64,
    /// The rung that the last trial has kept; zero before it.
    pub kept: u64,
    /// Trials that are over.
    pub trials: u64,
    /// Whether one is under way.
    pub trying: bool,
    /// What each rung (1, 8, 32, 64, 128, 256, 512) cost in the trial that is under way or the
    /// last: picoseconds for an operation. Zero for those not tried.
    pub costs_ps: [u64; RUNGS.len()],
}

impl LadderCounters {
    pub(crate) fn view(&self) -> LadderView {
        LadderView {
            rung: self.rung.get(),
            kept: self.kept.get(),
            trials: self.trials.get(),
            trying: self.trying.get() > 0,
            costs_ps: std::array::from_fn(|rung| self.costs[rung].get()),
        }
    }

    fn note(&self, ladder: &Ladder) {
        let size = |rung: Option<usize>| rung.map_or(0, |rung| RUNGS[rung] as u64);
        self.rung.set(size(ladder.rung()));
        self.kept.set(size(ladder.kept()));
        self.trials.set(ladder.trials());
        self.trying.set(ladder.is_trying().into());
        for (counter, cost) in self.costs.iter().zip(ladder.costs()) {
            counter.set(cost.map_or(0, |cost| (cost * 1000.0) as u64));
        }
    }
}

impl Auto {
    pub(crate) fn new(declared: &[Declared], stages: &[LocalStage], cohorts: Cohorts) -> Self {
        let set = |of: fn(&Declared) -> bool| {
            let members = declared.iter().enumerate().filter(|(_, stage)| of(stage));
            members.fold(0u64, |set, (stage, _)| set | 1 << stage)
        };
        // Who waits for a cohort of some size, or handles it as a whole, has said what is good.
        let said =
            |stage: &LocalStage| stage.rules.filling.is_some() || stage.local.batch.is_some();
        let said = stages.iter().enumerate().filter(|(_, stage)| said(stage));
        let said = said.fold(0u64, |set, (stage, _)| set | 1 << stage);
        // What is not counted cannot be measured.
        let found = cohorts.found && cfg!(not(uncounted));
        let left = if found { set(|stage| stage.max_cohort.is_none()) } else { 0 };
        Self {
            stages: left & !said,
            always_direct: set(|stage| stage.direct),
            cache: cohorts.cache(),
            ladder: RefCell::default(),
            turn_began: Cell::new(0),
            ran: Cell::new(false),
            until_look: Cell::new(LOOK),
            time: Cell::new(0),
            turns: Cell::new(0),
            worked: Cell::new(0),
            before: Cell::new([0; STAGES]),
            known: Cell::new(None),
        }
    }

    /// A turn is over.
    #[inline]
    pub(crate) fn turned(&self, ran: usize) {
        self.ran.set(ran > 0);
    }
}

impl Processor {
    /// A turn begins: the one before it has taken until now.
    #[inline]
    pub(crate) fn climb(&self, world: &impl World) {
        let auto = &self.auto;
        let now = self.now.get();
        let began = auto.turn_began.replace(now);
        if auto.ran.get() && auto.stages != 0 {
            auto.time.set(auto.time.get() + now.saturating_sub(began));
            auto.turns.set(auto.turns.get() + 1);
            let left = auto.until_look.get() - 1;
            auto.until_look.set(left);
            if left == 0 {
                self.look_at_ladder(world);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_ladder(&self, world: &impl World) {
        let auto = &self.auto;
        let mut ladder = auto.ladder.borrow_mut();
        let congested = self.congestion.is_congested();
        if congested && ladder.is_trying() {
            ladder.give_up();
            self.apply(&ladder);
        }
        auto.until_look.set(if ladder.is_trying() { 1 } else { LOOK });
        let started: [u64; STAGES] = std::array::from_fn(|stage| match stage < self.stages.len() {
            true => self.counters.stages[stage].started.get() + self.counters.direct(stage),
            false => 0,
        });
        let before = auto.before.get();
        let work: u64 = started.iter().zip(before).map(|(now, before)| now - before).sum();
        if work < ladder.slice() {
            return;
        }
        let shares: Shares =
            std::array::from_fn(|stage| (started[stage] - before[stage]) as f64 / work as f64);
        let per_turn = work as f64 / auto.turns.get().max(1) as f64;
        let worked = world.worked();
        // What the machine gave to others meanwhile is not this program's.
        let time = auto.time.get().min(worked.saturating_sub(auto.worked.replace(worked)));
        let changed = self.has_changed(&shares, per_turn);
        let slice = Slice { work, time, per_turn, changed, congested };
        let was_trying = ladder.is_trying();
        ladder.observe(slice);
        auto.before.set(started);
        auto.time.set(0);
        auto.turns.set(0);
        auto.until_look.set(if ladder.is_trying() { 1 } else { LOOK });
        // What follows a trial is what the next looks are compared with: the first slice after it.
        if was_trying {
            auto.known.set(None);
        } else if auto.known.get().is_none() && ladder.kept().is_some() {
            auto.known.set(Some((shares, per_turn)));
        }
        self.apply(&ladder);
    }

    fn has_changed(&self, shares: &Shares, per_turn: f64) -> bool {
        self.auto.known.get().is_some_and(|(known, known_per_turn)| {
            let moved: f64 = shares.iter().zip(known).map(|(a, b)| (a - b).abs() / 2.0).sum();
            moved > SHIFTED || is_another(per_turn, known_per_turn)
        })
    }

    fn apply(&self, ladder: &Ladder) {
        let auto = &self.auto;
        self.counters.ladder.note(ladder);
        let rung = ladder.rung();
        let mut left = auto.stages;
        while let Some(stage) = crate::processor::turn::first(left) {
            left &= left - 1;
            let local = &self.stages[stage];
            let rules = &local.rules;
            let bound = bound(auto.cache, stride(rules.class.get()) + rules.beside);
            // At the first rung what is queued is what could not run inside of its caller.
            let tried = rung.filter(|rung| *rung > 0);
            local.max_cohort.set(tried.map_or(bound, |rung| RUNGS[rung].min(2 * bound)));
        }
        let direct = if rung == Some(0) { auto.stages } else { 0 };
        self.direct.choose(auto.always_direct | direct);
    }
}

/// How many operations of so many bytes the cache has room for, within bounds.
pub(crate) fn bound(cache: usize, bytes: usize) -> usize {
    (cache / bytes).clamp(BOUNDS.0, BOUNDS.1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_the_cache_has_room_for() {
        assert_eq!(bound(1 << 20, stride(0)), 256);
        assert_eq!(bound(1 << 20, stride(10)), 63);
        assert_eq!(bound(64 << 10, stride(10)), 16);
    }
}
