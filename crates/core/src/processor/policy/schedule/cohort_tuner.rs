//! Cohort tuner: the cohort size of stages that do not declare it. It starts from a bound in bytes, which the
//! [ladder](crate::control::cohort_ladder) of each processor then adjusts.
//!
//! The bound is the number of operations that fit into the second-level cache with the memory that each of
//! them occupies, from 16 to 256. For each slice, the tuner passes the ladder the number of started
//! operations and the time of the turns that ran any; the ladder returns the next rung. All stages without a
//! declared size follow the same rung, since their requests pass through one cache.

use crate::control::cohort_ladder::{CohortLadder, RUNGS, Slice, is_different_load};
use crate::processor::processor::Processor;
use crate::stage::tuner_state::{LOOK, STAGES, Shares};
use crate::stage_set::StageSet;
use crate::world::World;

/// The share of the work that must move to other stages for the mix to count as changed.
const MAX_SHIFTED_SHARE: f64 = 0.25;

impl Processor {
    /// Begins a turn, and adds the time of the previous one.
    #[inline]
    pub(crate) fn tick_tuner(&self, world: &impl World) {
        let auto = &self.load.tuner;
        let now = self.now();
        let began = auto.turn_began.replace(now);
        if auto.ran.get() && !auto.stages.is_empty() {
            auto.time.set(auto.time.get() + now.saturating_sub(began));
            auto.turns.set(auto.turns.get() + 1);
            let left = auto.until_look.get() - 1;
            auto.until_look.set(left);
            if left == 0 {
                self.observe_slice(world);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn observe_slice(&self, world: &impl World) {
        let auto = &self.load.tuner;
        let mut ladder = auto.ladder.borrow_mut();
        let congested = self.load.delay.is_congested();
        if congested && ladder.is_trying() {
            ladder.give_up();
            self.apply(&ladder);
        }
        auto.until_look.set(if ladder.is_trying() { 1 } else { LOOK });
        let started: [u64; STAGES] = std::array::from_fn(|stage| {
            if stage < self.stages.len() {
                self.observe.counters.stages[stage].started.get()
                    + self.observe.counters.direct(stage)
            } else {
                0
            }
        });
        let before = auto.before.get();
        let work: u64 = started.iter().zip(before).map(|(now, before)| now - before).sum();
        if work < ladder.slice() {
            return;
        }
        let shares: Shares =
            std::array::from_fn(|stage| (started[stage] - before[stage]) as f64 / work as f64);
        let per_turn = work as f64 / auto.turns.get().max(1) as f64;
        let worked = world.thread_cpu_time();
        // Time that the machine gave to other programs does not count.
        let time = auto.time.get().min(worked.saturating_sub(auto.worked.replace(worked)));
        let changed = self.has_changed(&shares, per_turn);
        let slice = Slice { work, time, per_turn, changed, congested };
        let was_trying = ladder.is_trying();
        ladder.observe(slice);
        auto.before.set(started);
        auto.time.set(0);
        auto.turns.set(0);
        auto.until_look.set(if ladder.is_trying() { 1 } else { LOOK });
        // The first slice after a trial is the reference for the following checks.
        if was_trying {
            auto.known.set(None);
        } else if auto.known.get().is_none() && ladder.kept().is_some() {
            auto.known.set(Some((shares, per_turn)));
        }
        self.apply(&ladder);
    }

    fn has_changed(&self, shares: &Shares, per_turn: f64) -> bool {
        self.load.tuner.known.get().is_some_and(|(known, known_per_turn)| {
            let moved: f64 = shares.iter().zip(known).map(|(a, b)| (a - b).abs() / 2.0).sum();
            moved > MAX_SHIFTED_SHARE || is_different_load(per_turn, known_per_turn)
        })
    }

    fn apply(&self, ladder: &CohortLadder) {
        let auto = &self.load.tuner;
        self.observe.counters.cohort_tuner.note(ladder);
        let rung = ladder.rung();
        for stage in auto.stages {
            let local = &self.stages[stage];
            let bound = self.program().settings.cohort_size(local.cold.request_bytes());
            // At the first rung, the queued operations are those that could not run inline.
            let tried = rung.filter(|rung| *rung > 0);
            local.max_cohort.set(tried.map_or(bound, |rung| RUNGS[rung].min(2 * bound)));
        }
        let direct = if rung == Some(0) { auto.stages } else { StageSet::EMPTY };
        self.stages.inline.set_inline(auto.always_direct.union(direct));
    }
}
