//! Running a cohort: choosing its order, running its operations or its handler, and recording the results.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::gate::Gate;
use crate::panic::{catch_panic, discard_panic};
use crate::processor::processor::Processor;
use crate::processor::run::cohort_stats::CohortStats;
use crate::queue::local::PopOrder;
use crate::stage::local::LocalStage;
use crate::world::World;

/// The number of operations after which a cohort first reads the clock. If the operations are short, it then reads the
/// clock at growing intervals.
const FIRST_CLOCK_READ: usize = 8;

/// A cohort in progress.
pub(crate) struct RunningCohort<'a, W> {
    pub(crate) stage: usize,
    pub(crate) local: &'a LocalStage,
    pub(crate) order: PopOrder,
    /// The start time, in the clock's nanoseconds.
    pub(crate) start: u64,
    /// The number of operations that were waiting at the start, including those from other processors.
    pub(crate) waiting: usize,
    pub(crate) world: &'a W,
    pub(crate) stats: CohortStats,
}

/// Leaves an exclusive stage at the end of the cohort, even if it unwinds.
struct GateGuard<'a>(&'a dyn Gate);

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl LocalStage {
    /// The number of remote operations with which a cohort begins if local operations are waiting as well. It
    /// alternates between none and their share of the queue. So neither side starves, whether cohorts end by their size
    /// or by their time.
    #[cold]
    fn remote_share(&self, remote: usize, waiting: usize) -> usize {
        let first = self.cold.alternate_remote_first();
        let part = self.max_cohort.get().saturating_mul(remote) / waiting;
        if first { part.clamp(1, remote) } else { 0 }
    }
}

impl Processor {
    /// Runs one cohort of a stage, bounded by the stage's maximum size and time. Returns the number of operations run;
    /// zero if the stage is exclusive and another processor has its lock.
    pub(crate) fn run_cohort(&self, stage: usize, world: &impl World) -> usize {
        let local = &self.stages[stage];
        if local.parts.handler.as_ref().is_some_and(|handler| handler.is_busy()) {
            // The end of the running cohort makes the stage ready again.
            self.stages.clear_ready(stage);
            return 0;
        }
        let _inside = match &local.parts.gate {
            None => None,
            Some(gate) if gate.enter() => Some(GateGuard(&**gate)),
            Some(_) => return 0,
        };
        let cohort = self.begin_cohort(stage, world);
        match &local.parts.handler {
            Some(handler) => self.run_handler(&cohort, &**handler),
            None => self.run_operations(&cohort),
        }
        self.current.set_running(None);
        if let Some((hook, site)) = &local.cold.end_of_cohort
            && cohort.stats.size.get() > 0
            && let Err(panic) = catch_unwind(AssertUnwindSafe(&**hook))
        {
            self.record_panic(stage as u8, "end_of_cohort", site, &*panic);
            discard_panic(panic);
        }
        self.end_cohort(&cohort);
        cohort.stats.size.get()
    }

    /// Measures the queue of a stage and chooses the order in which the cohort pops its operations.
    #[inline(always)]
    fn begin_cohort<'a, W: World>(&'a self, stage: usize, world: &'a W) -> RunningCohort<'a, W> {
        let local = &self.stages[stage];
        let start = self.now();
        let remote = self.link.mailbox().stages[stage].len();
        let waiting = local.queue.len() + remote;
        let oldest = local.queue.oldest();
        if let Some(slot) = oldest {
            local.cold.observe_class(slot.class.get());
            if !local.cold.is_last_type(slot.vtable.get()) {
                self.note_type(slot, world);
            }
        }
        let oldest = oldest.map(|slot| slot.queued_since());
        local.cold.queue_delay.add(oldest.map_or(0, |oldest| start.saturating_sub(oldest)));
        let order = if local.lifo {
            local.starvation_guard.order(start, oldest)
        } else {
            PopOrder::OldestFirst
        };
        // If any stage has a threshold, thresholds are checked after every operation.
        let next_check =
            if self.stages.thresholds.stages.is_empty() { FIRST_CLOCK_READ } else { 1 };
        let stats = CohortStats {
            next_check: Cell::new(next_check),
            next_clock_read: Cell::new(FIRST_CLOCK_READ),
            ..CohortStats::default()
        };
        if remote > 0 && waiting > remote {
            stats.remote_left.set(local.remote_share(remote, waiting));
        }
        self.set_running_stage(stage);
        self.observe.counters.watch.set_stage(Some(stage));
        RunningCohort { stage, local, order, start, waiting, world, stats }
    }

    /// Records a cohort and sends its reports.
    fn end_cohort(&self, cohort: &RunningCohort<'_, impl World>) {
        let RunningCohort { stage, local, start, waiting, world, ref stats, .. } = *cohort;
        self.send_reports(world);
        self.set_running_stage(self.stages.len());
        self.observe.counters.watch.set_stage(None);
        let end = self.current.set_now(world.now());
        let time = end.saturating_sub(start).saturating_sub(stats.interrupted.get());
        let (mut remaining, size) = (local.queue.len(), stats.size.get());
        local.starvation_guard.cohort_ended(remaining);
        local.cold.clear_remote_since();
        if local.cold.capacity.is_some() {
            local.wake_capacity_waiters();
            // The operations whose capacity wait ended may have been queued at this stage.
            remaining = local.queue.len();
        }
        if remaining == 0 && self.link.mailbox().stages[stage].len() == 0 {
            self.stages.clear_ready(stage);
        }
        self.load.ingress.cohort_ended(stage, waiting > size && !self.holds(stage));
        stats.record(&self.observe.counters.stages[stage], waiting, time);
        self.observe.counters.busy.add(time);
        catch_panic(|| world.on_cohort(self.stage_name(stage as u8), size, time));
        if self.observe.counters.recorder.is_on() {
            self.record_cohort(stage, start, size as u64, waiting);
        }
    }
}
