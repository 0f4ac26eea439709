//! The budget: how many requests are begun while others are on their way. After the TUX paper
//! (§4.5.2), where the scheduler checks the memory of a request before it elects it at any stage; here entries alone do.
//!
//! In a graph with [entries](crate::StageOptions::entry) a turn does not just walk over the stages. Each time
//! the next one is chosen by three priorities: first a stage whose cohort is full, since waiting adds
//! nothing to it (of several the farthest along: what it has leaves soonest); then the others, the
//! earlier first, so that what is behind comes up with what is ahead; and last an entry, while what is
//! on its way takes up the cache, since beginning more would push that out.
//!
//! The bound is soft. Only what could run counts, not what waits for I/O or a child; and when nothing
//! else can run, or the oldest has waited for [`MAX_ENTRY_WAIT`], an entry does, whatever the bytes. A hard bound stands still while requests wait.

use crate::memory::slab::stride;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;
use crate::world::World;

/// The part of the cache that requests may have: the rest is for the code, for what the stages share, and for those that wait
/// to begin. Given all of it, requests missed a simulated cache seven times as often as with half (`phalanx bench concurrency`).
const CACHE_FRACTION: usize = 2;

/// Nanoseconds after which an entry has waited enough for others to make room: there may always be some.
const MAX_ENTRY_WAIT: u64 = 10_000_000;

/// What can be chosen from: sets of stages, a bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Have something to run.
    pub(crate) ready: StageSet,
    /// Of these, those whose cohort is full.
    pub(crate) full: StageSet,
    /// Those that would overflow the budget.
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
    /// What a sweep does in a graph with entries: each stage that is ready once, by priority. An entry
    /// over the budget runs only if nothing else has in this turn, or it has waited for [`MAX_ENTRY_WAIT`].
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

    /// Those of a set that have no room for one more request.
    fn without_room(&self, stages: StageSet, room: usize) -> StageSet {
        stages.filter(|stage| self.request_bytes(*stage) > room).collect()
    }

    /// Those of a set whose cohort would not grow by waiting.
    fn full_among(&self, stages: StageSet) -> StageSet {
        let is_full = |stage: &usize| self.queued(*stage) >= self.stages[*stage].max_cohort.get();
        stages.filter(is_full).collect()
    }

    /// The bytes of a stage's request: its operation's slot and what is beside it.
    fn request_bytes(&self, stage: usize) -> usize {
        let runtime = &self.stages[stage].runtime;
        stride(runtime.class.get()) + runtime.beside
    }

    /// What is left of their part of the cache beside the requests that are on their way and could run.
    fn room_in_cache(&self) -> usize {
        let begun = self.stages.ready().difference(self.stages.entries);
        let taken: usize = begun.map(|stage| self.queued(stage) * self.request_bytes(stage)).sum();
        (self.program().cohorts.cache() / CACHE_FRACTION).saturating_sub(taken)
    }

    /// One cohort of an entry, of as many operations as there is room for; of one at least.
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
        /// Whatever there is: no stage is chosen while one of a higher priority is ready; within one
        /// the order is as said; and if anything is ready, something is chosen.
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
