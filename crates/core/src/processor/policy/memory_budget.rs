//! Memory budget: the number of requests that begin while others are in progress. After the TUX paper
//! (§4.5.2), where the scheduler checks the memory of a request before it runs it at any stage; here only
//! entry stages are checked.
//!
//! In a graph with [entries](crate::StageOptions::entry), a turn chooses each next stage by three priorities.
//! First comes a stage whose cohort is full, since waiting adds nothing to it; of several, the farthest
//! along, whose operations leave soonest. Then come the other stages, the earlier first, so that cohorts
//! downstream grow. Entries come last if the requests in progress fill their part of the cache, since new
//! ones would evict them.
//!
//! The bound is soft. Only runnable operations count, not those that wait for I/O or a child. If nothing else
//! can run, or the oldest has waited for [`MAX_ENTRY_WAIT`], an entry runs regardless of the bytes. A hard
//! bound would stall while requests wait.

use crate::operation::size_class::stride;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;
use crate::world::World;

/// The divisor for the part of the cache that requests may use. The rest is for code, shared state and
/// requests that wait to begin. With the whole cache, requests missed a simulated cache seven times as often
/// as with half (`phalanx-bench concurrency`).
const CACHE_FRACTION: usize = 2;

/// Nanoseconds after which an entry runs regardless of the budget.
const MAX_ENTRY_WAIT: u64 = 10_000_000;

/// The candidates for the next visit, as sets of stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Stages that have something to run.
    pub(crate) ready: StageSet,
    /// Ready stages whose cohort is full.
    pub(crate) full: StageSet,
    /// Ready stages that would exceed the budget.
    pub(crate) over: StageSet,
}

impl Choice {
    /// The stage to run next.
    pub(crate) fn next(self) -> Option<usize> {
        let Self { ready, full, over } = self;
        let within = ready.difference(over);
        full.intersection(within).last().or_else(|| within.first()).or_else(|| ready.first())
    }
}

impl Processor {
    /// The sweep of a graph with entries: visits each ready stage once, by priority. An entry over the budget
    /// runs only if nothing else has run in this turn, or its oldest operation has waited for
    /// [`MAX_ENTRY_WAIT`].
    pub(crate) fn sweep_by_priority(
        &self,
        world: &impl World,
        held: &mut StageSet,
        before: usize,
    ) -> usize {
        let (mut ran, mut done) = (0, StageSet::EMPTY);
        loop {
            let ready = self.stages.ready().difference(done);
            let entries = ready.intersection(self.stages.entries);
            let room = if entries.is_empty() { 0 } else { self.room_in_cache() };
            let choice = Choice {
                ready,
                full: self.full_among(ready),
                over: self.without_room(entries, room),
            };
            let Some(stage) = choice.next() else { return ran };
            done.insert(stage);
            if self.holds(stage) {
                held.insert(stage);
            } else if !entries.contains(stage) {
                ran += self.visit(stage, world);
            } else if !choice.over.contains(stage)
                || ran + before == 0
                || self.oldest_wait(stage) >= MAX_ENTRY_WAIT
            {
                ran += self.visit_entry(stage, room, world);
            } else if before == 0 {
                self.stage_counters(stage as u8).throttled_turns.add(1);
            }
        }
    }

    /// The stages of a set that would exceed the budget with one more request.
    fn without_room(&self, stages: StageSet, room: usize) -> StageSet {
        stages.filter(|stage| self.request_bytes(*stage) > room).collect()
    }

    /// The stages of a set whose cohort would not grow by waiting.
    fn full_among(&self, stages: StageSet) -> StageSet {
        let is_full = |stage: &usize| self.queued(*stage) >= self.stages[*stage].max_cohort.get();
        stages.filter(is_full).collect()
    }

    /// The bytes of a stage's request: its operation's slot and its pooled objects.
    fn request_bytes(&self, stage: usize) -> usize {
        let runtime = &self.stages[stage].runtime;
        stride(runtime.class.get()) + runtime.beside
    }

    /// The free bytes in the requests' part of the cache, after the runnable requests in progress.
    fn room_in_cache(&self) -> usize {
        let begun = self.stages.ready().difference(self.stages.entries);
        let taken: usize = begun.map(|stage| self.queued(stage) * self.request_bytes(stage)).sum();
        (self.program().cohorts.cache() / CACHE_FRACTION).saturating_sub(taken)
    }

    /// Runs one cohort of an entry, with as many operations as fit, but at least one.
    fn visit_entry(&self, stage: usize, room: usize, world: &impl World) -> usize {
        let local = &self.stages[stage];
        let most = (room / self.request_bytes(stage)).max(1);
        let declared = local.max_cohort.replace(most.min(local.max_cohort.get()));
        let ran = self.visit(stage, world);
        local.max_cohort.set(declared);
        ran
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For all inputs, no stage is chosen while one of a higher priority is ready, the order within a
        /// priority is as documented, and if anything is ready, something is chosen.
        #[test]
        fn the_order_is_by_three_priorities(ready: u64, full: u64, over: u64) {
            let set = StageSet::from_bits;
            let chosen = Choice { ready: set(ready), full: set(full), over: set(over) }.next();
            prop_assert_eq!(chosen.is_some(), ready != 0);
            let Some(chosen) = chosen else { return Ok(()) };
            prop_assert!(ready & 1 << chosen != 0);
            let priority = |stage: usize| match (over >> stage & 1, full >> stage & 1) {
                (0, 1) => 0,
                (0, _) => 1,
                _ => 2,
            };
            for other in (0..64).filter(|other| ready & 1 << other != 0) {
                prop_assert!(priority(chosen) <= priority(other));
                if priority(chosen) == priority(other) {
                    let behind = if priority(chosen) == 0 { chosen >= other } else { chosen <= other };
                    prop_assert!(behind, "{} before {}", chosen, other);
                }
            }
        }
    }
}
