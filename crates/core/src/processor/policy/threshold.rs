//! Thresholds: a queue that has become too long, or too old, does not wait for its turn
//! (BatchThreshold and BatchTimer in tr2001 §5.1; 2002 §4.1.3).
//!
//! Looked for after each operation, on processors of a graph that declares any: the operation's
//! cohort is put away, the overdue stage runs one cohort, and the first goes on. A cohort that
//! interrupts is not interrupted; other stages that are overdue wait until the first cohort has run
//! another operation. A graph without thresholds looks at nothing.

use std::time::Duration;

use crate::handle::graph::StageOptions;
use crate::processor::processor::{LocalStage, Processor};
use crate::processor::turn::{World, first};

/// When a stage is overdue. The greatest value stands for "never".
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// Operations queued.
    length: usize,
    /// Nanoseconds that the oldest has waited.
    age: u64,
}

impl Threshold {
    pub(crate) const NONE: Self = Self { length: usize::MAX, age: u64::MAX };

    pub(crate) fn is_some(self) -> bool {
        self.length < usize::MAX || self.has_age()
    }

    pub(crate) fn has_age(self) -> bool {
        self.age < u64::MAX
    }
}

/// A duration in the clock's nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX - 1)
}

impl StageOptions<'_> {
    /// Forces the stage to run once `length` operations are queued at it on a processor, or the
    /// oldest of them has waited for `age` (BatchThreshold and BatchTimer in tr2001 §5.1); either
    /// may be `None`. The operation that is running then finishes its step, the stage runs one
    /// cohort, and the interrupted cohort goes on. For stages that must be fed: those that hand
    /// requests to devices, and those whose answers are waited for.
    ///
    /// What it costs: after *every* operation of the graph's stages each declared threshold is
    /// compared. Where any stage declares an age, the clock is read after every operation too, and
    /// [`now`](crate::now) advances with it.
    ///
    /// Operations sent by other processors count as soon as they have arrived; their age from when
    /// this processor first saw one of them.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.shared("parse", ());
    /// let disk = graph.stage("disk").threshold(32, Duration::from_micros(500)).shared(());
    /// # let _ = (parse, disk);
    /// ```
    ///
    /// # Panics
    /// If `length` is zero.
    #[must_use]
    pub fn threshold(
        mut self,
        length: impl Into<Option<usize>>,
        age: impl Into<Option<Duration>>,
    ) -> Self {
        let length = length.into().unwrap_or(usize::MAX);
        assert!(length > 0, "a threshold is of at least one operation");
        self.threshold = Threshold { length, age: age.into().map_or(u64::MAX, nanoseconds) };
        self
    }
}

/// What a processor keeps of its stages' thresholds.
pub(crate) struct Thresholds {
    /// The stages that have one, a bit each.
    pub(crate) stages: u64,
    /// Whether any of them is an age.
    aged: bool,
    /// The stage after the one that interrupted last: none is always the first to be served.
    next: std::cell::Cell<usize>,
    /// Whether the cohort that runs has interrupted another.
    interrupting: std::cell::Cell<bool>,
}

impl Thresholds {
    pub(crate) fn new(stages: &[LocalStage]) -> Self {
        let declared = |(_, stage): &(usize, &LocalStage)| stage.rules.threshold.is_some();
        Self {
            stages: stages.iter().enumerate().filter(declared).fold(0, |set, (n, _)| set | 1 << n),
            aged: stages.iter().any(|stage| stage.rules.threshold.has_age()),
            next: Default::default(),
            interrupting: Default::default(),
        }
    }
}

/// A cohort that interrupts another. The other goes on when this is dropped, also by a panic.
struct Interruption<'a> {
    processor: &'a Processor,
    running: usize,
}

impl<'a> Interruption<'a> {
    fn begin(processor: &'a Processor, running: usize) -> Self {
        processor.thresholds.interrupting.set(true);
        Self { processor, running }
    }
}

impl Drop for Interruption<'_> {
    fn drop(&mut self) {
        let Self { processor, running } = *self;
        processor.thresholds.interrupting.set(false);
        processor.set_running_stage(running);
        processor.counters.watch.turn_to(Some(running));
    }
}

impl Processor {
    /// Between two operations of `running`: runs a cohort of a stage that is overdue, if there is
    /// one. Returns the nanoseconds that it took.
    #[cold]
    pub(crate) fn heed_thresholds(&self, running: usize, world: &impl World) -> u64 {
        let thresholds = &self.thresholds;
        if thresholds.aged {
            self.now.set(world.now());
        }
        if thresholds.interrupting.get() {
            return 0;
        }
        let Some(stage) = self.overdue(thresholds.stages & !(1 << running)) else { return 0 };
        thresholds.next.set(stage + 1);
        let start = world.now();
        self.now.set(start);
        let interruption = Interruption::begin(self, running);
        let mut ran = 0;
        self.interleaved.around(|| ran = self.run_cohort(stage, world));
        if ran > 0 {
            self.stage_counters(stage as u8).interruptions.add(1);
        }
        // Children of what has just run have a parent that has suspended or finished.
        self.flush_outbox();
        drop(interruption);
        self.now.get().saturating_sub(start)
    }

    fn overdue(&self, stages: u64) -> Option<usize> {
        let from_next = stages & u64::MAX << self.thresholds.next.get();
        let search = |mut left: u64| {
            while let Some(stage) = first(left) {
                if self.is_overdue(stage) {
                    return Some(stage);
                }
                left &= left - 1;
            }
            None
        };
        search(from_next).or_else(|| search(stages & !from_next))
    }

    fn is_overdue(&self, stage: usize) -> bool {
        let Threshold { length, age } = self.stages[stage].rules.threshold;
        let queued = self.queued(stage);
        queued >= length || queued > 0 && age < u64::MAX && self.oldest_wait(stage) >= age
    }

    /// Operations that wait at a stage, those that other processors have sent included.
    pub(crate) fn queued(&self, stage: usize) -> usize {
        self.stages[stage].queue.len() + self.post.stages[stage].len()
    }

    /// Nanoseconds that the oldest operation at a stage has waited.
    pub(crate) fn oldest_wait(&self, stage: usize) -> u64 {
        let (local, now) = (&self.stages[stage], self.now.get());
        let parcels = match self.post.stages[stage].len() {
            0 => now,
            // Their own clocks are others'; so from the first look on.
            _ => local.rules.parcels_since.get().unwrap_or_else(|| {
                local.rules.parcels_since.set(Some(now));
                now
            }),
        };
        let queued = local.queue.oldest().map_or(now, |slot| slot.queued_at.get());
        now.saturating_sub(parcels.min(queued))
    }
}
