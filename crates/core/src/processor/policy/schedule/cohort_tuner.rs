//! Cohort tuner: chooses the cohort size of stages that do not declare one. It starts from the number of operations
//! that fit into the cache, which the [ladder](crate::control::cohort_ladder) of each processor then adjusts.
//!
//! That number counts operations with the objects of their requests, relative to the second-level cache, and is between
//! 16 and 256. For each slice, the tuner passes to the ladder the number of started operations and the time of the
//! turns that ran any; the ladder returns the next rung. All stages without a declared size use the same rung, because
//! their requests share one cache.

use crate::control::cohort_ladder::{CohortLadder, RUNGS, Slice, is_different_load};
use crate::processor::processor::Processor;
use crate::stage::tuner_state::{MAX_STAGE_NUMBERS, Shares};
use crate::stage_set::StageSet;
use crate::world::World;

/// The share of the work that must shift to other stages before the mix counts as changed.
const MAX_SHIFTED_SHARE: f64 = 0.25;

impl Processor {
    /// Begins a turn, and adds the time of the previous one.
    #[inline]
    pub(crate) fn tick_tuner(&self, world: &impl World) {
        let tuner = &self.load.tuner;
        let now = self.now();
        let start = tuner.turn_start.replace(now);
        if tuner.ran.get() && !tuner.stages.is_empty() {
            tuner.time.set(tuner.time.get() + now.saturating_sub(start));
            tuner.turns.set(tuner.turns.get() + 1);
            let remaining = tuner.turns_until_check.get() - 1;
            tuner.turns_until_check.set(remaining);
            if remaining == 0 {
                self.observe_slice(world);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn observe_slice(&self, world: &impl World) {
        let tuner = &self.load.tuner;
        let mut ladder = tuner.ladder.borrow_mut();
        let congested = self.load.delay.is_congested();
        if congested && ladder.is_trying() {
            ladder.postpone();
            self.apply(&ladder);
        }
        tuner.plan_check(&ladder);
        let started: [u64; MAX_STAGE_NUMBERS] = std::array::from_fn(|stage| {
            if stage < self.stages.len() {
                self.observe.counters.stages[stage].started.get()
                    + self.observe.counters.direct(stage)
            } else {
                0
            }
        });
        let before = tuner.started_at_slice_start.get();
        let work: u64 = started.iter().zip(before).map(|(now, before)| now - before).sum();
        if work < ladder.slice() {
            return;
        }
        let shares: Shares =
            std::array::from_fn(|stage| (started[stage] - before[stage]) as f64 / work as f64);
        let per_turn = work as f64 / tuner.turns.get().max(1) as f64;
        let cpu_time = world.thread_cpu_time();
        // Time in which the machine ran other programs does not count.
        let time = tuner
            .time
            .get()
            .min(cpu_time.saturating_sub(tuner.cpu_at_slice_start.replace(cpu_time)));
        let changed = self.has_changed(&shares, per_turn);
        let slice = Slice { work, time, per_turn, changed, congested };
        let was_trying = ladder.is_trying();
        ladder.observe(slice);
        tuner.started_at_slice_start.set(started);
        tuner.time.set(0);
        tuner.turns.set(0);
        tuner.plan_check(&ladder);
        // The first slice after a trial is the reference for the following checks.
        if was_trying {
            tuner.last_mix.set(None);
        } else if tuner.last_mix.get().is_none() && ladder.chosen().is_some() {
            tuner.last_mix.set(Some((shares, per_turn)));
        }
        self.apply(&ladder);
    }

    fn has_changed(&self, shares: &Shares, per_turn: f64) -> bool {
        self.load.tuner.last_mix.get().is_some_and(|(known, known_per_turn)| {
            let moved: f64 = shares.iter().zip(known).map(|(a, b)| (a - b).abs() / 2.0).sum();
            moved > MAX_SHIFTED_SHARE || is_different_load(per_turn, known_per_turn)
        })
    }

    fn apply(&self, ladder: &CohortLadder) {
        let tuner = &self.load.tuner;
        self.observe.counters.cohort_tuner.note(ladder);
        let rung = ladder.rung();
        for stage in tuner.stages {
            let local = &self.stages[stage];
            let bound = self.program().settings.cohort_size(local.cold.request_bytes());
            // At the first rung, the queued operations are those that could not run inline.
            let tried = rung.filter(|rung| *rung > 0);
            local.max_cohort.set(tried.map_or(bound, |rung| RUNGS[rung].min(2 * bound)));
        }
        let direct = if rung == Some(0) { tuner.stages } else { StageSet::EMPTY };
        self.stages.inline.set_inline(tuner.always_direct.union(direct));
    }
}
