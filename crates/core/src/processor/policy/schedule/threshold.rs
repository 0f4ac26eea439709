//! Thresholds: a stage whose queue is too long or too old runs immediately (BatchThreshold and BatchTimer in
//! tr2001 §5.1; 2002 §4.1.3).
//!
//! Thresholds are checked after each operation, on processors whose graph declares any. The running cohort is
//! preempted, the overdue stage runs one cohort, and the first cohort continues. A preempting cohort is not
//! preempted; other overdue stages wait until the first cohort has run another operation. A graph without
//! thresholds checks nothing.
//!
//! No server of this repository uses thresholds.

use crate::processor::processor::Processor;
use crate::stage::limits::Threshold;
use crate::stage_set::StageSet;
use crate::world::World;

/// A preemption. The preempted cohort continues when this is dropped, even by a panic.
struct Interruption<'a> {
    processor: &'a Processor,
    running: usize,
}

impl<'a> Interruption<'a> {
    fn begin(processor: &'a Processor, running: usize) -> Self {
        processor.stages.thresholds.interrupting.set(true);
        Self { processor, running }
    }
}

impl Drop for Interruption<'_> {
    fn drop(&mut self) {
        let Self { processor, running } = *self;
        processor.stages.thresholds.interrupting.set(false);
        processor.set_running_stage(running);
        processor.observe.counters.watch.set_stage(Some(running));
    }
}

impl Processor {
    /// Runs a cohort of an overdue stage, if there is one. Called between two operations of stage `running`. Returns
    /// the nanoseconds it took.
    #[cold]
    pub(crate) fn run_overdue(&self, running: usize, world: &impl World) -> u64 {
        let thresholds = &self.stages.thresholds;
        if thresholds.aged {
            self.current.set_now(world.now());
        }
        if thresholds.interrupting.get() {
            return 0;
        }
        let Some(stage) = self.overdue(thresholds.stages.without(running)) else { return 0 };
        thresholds.next.set(stage + 1);
        let start = self.current.set_now(world.now());
        let interruption = Interruption::begin(self, running);
        let mut ran = 0;
        self.scratch.interleaved.preempt(|| ran = self.run_cohort(stage, world));
        if ran > 0 {
            self.stage_counters(stage as u8).preemptions.add(1);
        }
        // Sending is safe here, because the parents of the messages in the outbox have suspended or finished.
        self.flush_outbox();
        drop(interruption);
        self.now().saturating_sub(start)
    }

    fn overdue(&self, stages: StageSet) -> Option<usize> {
        let mut from_next = stages.at_or_after(self.stages.thresholds.next.get());
        let mut before = stages.difference(from_next);
        let overdue = |stage: &usize| self.is_overdue(*stage);
        from_next.find(overdue).or_else(|| before.find(overdue))
    }

    fn is_overdue(&self, stage: usize) -> bool {
        let Threshold { length, age } = self.stages[stage].cold.threshold;
        let queued = self.queued(stage);
        queued >= length || queued > 0 && age < u64::MAX && self.oldest_wait(stage) >= age
    }

    /// Operations queued at a stage, including those from other processors.
    pub(crate) fn queued(&self, stage: usize) -> usize {
        self.stages[stage].queue.len() + self.link.mailbox().stages[stage].len()
    }

    /// Nanoseconds for which the oldest operation at a stage has waited.
    pub(crate) fn oldest_wait(&self, stage: usize) -> u64 {
        let (local, now) = (&self.stages[stage], self.now());
        let remote = match self.link.mailbox().stages[stage].len() {
            0 => {
                local.cold.clear_remote_since();
                now
            }
            // An envelope has no queueing time, so its wait is measured from the first check that found it.
            _ => local.cold.remote_since(now),
        };
        let queued = local.queue.oldest().map_or(now, |slot| slot.queued_since());
        now.saturating_sub(remote.min(queued))
    }
}
