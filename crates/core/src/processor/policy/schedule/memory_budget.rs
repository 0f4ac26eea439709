//! Memory budget: limits the requests in progress by their memory, after the TUX paper (§4.5.2), whose scheduler checks
//! the memory of a request before it runs the request at any stage. The [ingress](crate::Ingress) determines whether
//! only entries or all stages are checked.
//!
//! With a budget, a turn chooses each next stage by three priorities. First come stages whose cohort is full, because
//! waiting would not enlarge it; of several, the one farthest downstream, whose operations complete soonest. Next come
//! the other stages, upstream ones first, so that cohorts downstream grow. Last come checked stages without room,
//! because their requests would evict others from the cache.
//!
//! The bound is soft. Only runnable operations count, not those that wait for I/O or a child. If nothing else
//! can run, or the oldest has waited for [`MAX_WAIT`], a stage runs regardless of the bytes. A hard bound would
//! stall while requests wait.
//!
//! No server of this repository uses a budget; `phalanx-bench concurrency` measures it.

use crate::control::election::Choice;
use crate::control::ingress::Ingress;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;
use crate::world::World;

/// The divisor for the part of the cache that requests may use. The rest is for code, shared state and requests that
/// wait to begin, so that these do not evict the requests in progress.
const CACHE_FRACTION: usize = 2;

/// Nanoseconds after which a stage runs regardless of the budget.
const MAX_WAIT: u64 = 10_000_000;

impl Processor {
    /// The sweep of a processor with a budget: visits each ready stage once, by priority. A stage over the budget
    /// runs only if nothing else has run in this turn, or its oldest operation has waited for [`MAX_WAIT`].
    pub(crate) fn sweep_by_priority(
        &self,
        world: &impl World,
        held: &mut StageSet,
        before: usize,
    ) -> usize {
        let entries = self.stages.entries;
        let every_stage = self.load.ingress.limit == Ingress::BudgetEveryStage;
        let (mut ran, mut done) = (0, StageSet::EMPTY);
        loop {
            let ready = self.stages.ready().difference(done);
            let checked = if every_stage { ready } else { ready.intersection(entries) };
            let used = if checked.is_empty() { 0 } else { self.bytes_in_progress() };
            let mut full = self.full_among(ready);
            if every_stage {
                full = full.union(self.at_maximal_flow(ready, used));
            }
            let over_budget = self.without_room(checked, used);
            let Some(stage) = (Choice { ready, full, over_budget, entries }).next() else {
                return ran;
            };
            done.insert(stage);
            if self.holds(stage) {
                held.insert(stage);
            } else if !checked.contains(stage) {
                ran += self.visit(stage, world);
            } else if !over_budget.contains(stage) {
                ran += self.visit_at_most(stage, self.available(stage, used), world);
            } else if ran + before == 0 || self.oldest_wait(stage) >= MAX_WAIT {
                // The requests of other stages have already allocated their memory, so a smaller cohort would not free
                // any.
                let available = if entries.contains(stage) { 0 } else { usize::MAX };
                ran += self.visit_at_most(stage, available, world);
            } else if before == 0 {
                self.stage_counters(stage as u8).throttled_turns.add(1);
            }
        }
    }

    /// The stages of a set whose next request would exceed the budget.
    fn without_room(&self, stages: StageSet, used: usize) -> StageSet {
        stages.filter(|stage| self.request_bytes(*stage) > self.available(*stage, used)).collect()
    }

    /// The stages of a set whose queued requests use all the memory available to them, so that no more can be
    /// accumulated (TUX paper, §4.5.2).
    fn at_maximal_flow(&self, stages: StageSet, used: usize) -> StageSet {
        let next_bytes = |stage: usize| (self.queued(stage) + 1) * self.request_bytes(stage);
        stages.filter(|stage| next_bytes(*stage) > self.available(*stage, used)).collect()
    }

    /// The stages of a set whose cohort is full, so that waiting would not enlarge it.
    fn full_among(&self, stages: StageSet) -> StageSet {
        let is_full = |stage: &usize| self.queued(*stage) >= self.stages[*stage].max_cohort.get();
        stages.filter(is_full).collect()
    }

    /// The bytes of a stage's request: its operation's slot and its pooled objects.
    fn request_bytes(&self, stage: usize) -> usize {
        self.stages[stage].cold.request_bytes()
    }

    /// The bytes of the runnable requests in progress, at all stages except the entries.
    fn bytes_in_progress(&self) -> usize {
        let in_progress = self.stages.ready().difference(self.stages.entries);
        in_progress.map(|stage| self.queued(stage) * self.request_bytes(stage)).sum()
    }

    /// The bytes that a stage's cohort may use: the requests' part of the cache without the requests of other stages.
    /// `used` is the bytes of all requests in progress.
    fn available(&self, stage: usize, used: usize) -> usize {
        let own = if self.stages.entries.contains(stage) {
            0
        } else {
            self.queued(stage) * self.request_bytes(stage)
        };
        let others = used.saturating_sub(own);
        (self.program().settings.cache() / CACHE_FRACTION).saturating_sub(others)
    }

    /// Runs one cohort of a stage, with as many operations as fit into `available`, but at least one.
    fn visit_at_most(&self, stage: usize, available: usize, world: &impl World) -> usize {
        let local = &self.stages[stage];
        let max_cohort = (available / self.request_bytes(stage)).max(1);
        let declared = local.max_cohort.replace(max_cohort.min(local.max_cohort.get()));
        let ran = self.visit(stage, world);
        local.max_cohort.set(declared);
        ran
    }
}
