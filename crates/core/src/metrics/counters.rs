//! Counting: what Figure 4 of the 2002 paper shows, for each stage on each processor, always on.
//!
//! Each counter has one writer, its processor, and is written once a cohort (or once an invocation
//! for the arcs) with a plain add; anyone may read at any time. A reader sees each counter whole,
//! but not all of them at the same instant.
//!
//! Compiled with `--cfg uncounted` nothing is counted: only to measure what counting costs
//! (`cargo xtask cost-of-counting`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::metrics::histogram::{TimeCounters, Times};
use crate::metrics::watch::Watch;
use crate::processor::policy::cohort_tuner::{LadderCounters, LadderView};
use crate::program::operation_sizes::Types;
use crate::program::trace::Recorder;

/// Cohort sizes are counted in buckets 1, 2–3, 4–7, … the last holds 128 and more.
pub const COHORT_BUCKETS: usize = 8;

/// A counter of one writer.
#[derive(Default, Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        if cfg!(not(uncounted)) {
            self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
        }
    }

    #[inline]
    pub(crate) fn raise_to(&self, n: u64) {
        if cfg!(not(uncounted)) && n > self.0.load(Relaxed) {
            self.0.store(n, Relaxed);
        }
    }

    pub(crate) fn set(&self, n: u64) {
        if cfg!(not(uncounted)) {
            self.0.store(n, Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One stage on one processor. Times in nanoseconds.
#[derive(Default, Debug)]
pub(crate) struct StageCounters {
    pub(crate) queue_length: Counter,
    pub(crate) queue_length_max: Counter,
    pub(crate) queue_length_sum: Counter,
    pub(crate) started: Counter,
    pub(crate) started_wait: Counter,
    pub(crate) started_wait_max: Counter,
    pub(crate) resumed: Counter,
    pub(crate) resumed_wait: Counter,
    pub(crate) resumed_wait_max: Counter,
    pub(crate) suspended: Counter,
    /// Called, and run to their end inside of their callers; not among `started` and `completed`.
    /// Those that were a part of their callers are in [`ProcessorCounters::arcs`].
    pub(crate) direct: Counter,
    pub(crate) completed: Counter,
    pub(crate) panicked: Counter,
    pub(crate) ended: Counter,
    pub(crate) ended_suspended: Counter,
    pub(crate) refused: Counter,
    pub(crate) interruptions: Counter,
    pub(crate) held: Counter,
    pub(crate) postponed: Counter,
    pub(crate) rebuilt: Counter,
    pub(crate) shed_deadline: Counter,
    pub(crate) shed_admission: Counter,
    pub(crate) shed_full: Counter,
    pub(crate) run: Counter,
    pub(crate) run_max: Counter,
    pub(crate) cohorts: Counter,
    pub(crate) cohort_max: Counter,
    pub(crate) cohort_sizes: [Counter; COHORT_BUCKETS],
    pub(crate) waits: TimeCounters,
    pub(crate) runs: TimeCounters,
}

/// One processor's counters, with a line of them for each stage.
pub(crate) struct ProcessorCounters {
    pub(crate) stages: Box<[StageCounters]>,
    /// `[(source * (stages + 1) + from) * stages + to]`; `from == stages` is the world outside
    /// (I/O, timers, other threads). Source 0 is this processor, `1 + p` processor `p`. Then the same
    /// once more for operations that were a part of their callers: these are not in the first half.
    pub(crate) arcs: Box<[Counter]>,
    /// Other processors that are told apart as sources; the rest are counted as the last.
    sources: usize,
    pub(crate) recorder: Recorder,
    pub(crate) turns: Counter,
    pub(crate) parks: Counter,
    pub(crate) parked: Counter,
    pub(crate) busy: Counter,
    pub(crate) wakes_sent: Counter,
    pub(crate) operations: Counter,
    pub(crate) memory: Counter,
    pub(crate) pooled: Counter,
    pub(crate) objects: Counter,
    pub(crate) spilled: Counter,
    pub(crate) ladder: LadderCounters,
    pub(crate) watch: Watch,
    pub(crate) types: Types,
}

impl ProcessorCounters {
    pub(crate) fn new(stages: usize, processors: usize) -> Arc<Self> {
        let sources = processors.min(MAX_ARCS / ((stages + 1) * stages.max(1))).max(1);
        Arc::new(Self {
            sources,
            recorder: Recorder::default(),
            stages: (0..stages).map(|_| StageCounters::default()).collect(),
            arcs: (0..2 * (1 + sources) * (stages + 1) * stages)
                .map(|_| Counter::default())
                .collect(),
            turns: Counter::default(),
            parks: Counter::default(),
            parked: Counter::default(),
            busy: Counter::default(),
            wakes_sent: Counter::default(),
            operations: Counter::default(),
            memory: Counter::default(),
            pooled: Counter::default(),
            objects: Counter::default(),
            spilled: Counter::default(),
            ladder: LadderCounters::default(),
            watch: Watch::default(),
            types: Types::default(),
        })
    }
}

/// Counters of arcs that a processor has at most, for those from other processors.
const MAX_ARCS: usize = 1 << 16;

/// The bucket of a cohort of `size` operations.
pub(crate) fn cohort_bucket(size: u64) -> usize {
    (63 - size.max(1).leading_zeros() as usize).min(COHORT_BUCKETS - 1)
}

/// A number of operations with the mean and the greatest of some time of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Operations.
    pub count: u64,
    /// The sum of their times, in nanoseconds.
    pub total_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// What was not begun, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShedView {
    /// Operations whose session was past its deadline when they would have started.
    pub deadline: u64,
    /// Refusals of an [`Admission`](crate::Admission), at the stage that asked.
    pub admission: u64,
    /// Invocations beyond [`Graph::max_operations`](crate::Graph::max_operations); they are among
    /// [`StageView::refused`] too.
    pub full: u64,
}

/// One stage on one processor, at one moment; the columns of Figure 4.
#[derive(Clone, Debug, Default)]
pub struct StageView {
    /// Operations queued when its last cohort began.
    pub queue_length: u64,
    /// The longest queue that a cohort found.
    pub queue_length_max: u64,
    /// The sum over cohorts of the queue each found; over [`cohorts`](Self::cohorts) it is the mean.
    pub queue_length_sum: u64,
    /// Started, with the wait from invocation to start.
    pub started: Column,
    /// Restarted after a suspension, with the wait from being re-enabled to running again.
    pub resumed: Column,
    /// Completed, with the time run by this stage's cohorts: the maximum is a cohort's mean.
    pub completed: Column,
    /// Of those completed, operations that ran inside of their callers, whose time is in their
    /// callers' ([`direct`](crate::StageOptions::direct)).
    pub direct: u64,
    /// Times that an operation suspended itself.
    pub suspended: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations that were ended with their session or at shutdown.
    pub ended: u64,
    /// Of these, operations that had started.
    pub ended_suspended: u64,
    /// Invocations refused because the processor or the stage was full, or their session ended.
    pub refused: u64,
    /// What was not begun, by reason.
    pub shed: ShedView,
    /// Cohorts that interrupted another stage's because the
    /// [threshold](crate::StageOptions::threshold) was reached.
    pub interruptions: u64,
    /// Times that the stage was passed over so that its cohort could fill
    /// ([hold](crate::StageOptions::hold)).
    pub held: u64,
    /// Turns in which nothing was begun here, the cache being taken up by what is on its way
    /// ([`entry`](crate::StageOptions::entry)).
    pub postponed: u64,
    /// Times that a state was made anew after a panic.
    pub rebuilt: u64,
    /// Cohorts run.
    pub cohorts: u64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Cohorts by size: 1, 2–3, 4–7, …, 128 and more.
    pub cohort_sizes: [u64; COHORT_BUCKETS],
    /// Operations by their wait until they ran, each at the mean of its cohort.
    pub waits: Times,
    /// Operations by their time to run, each at the mean of its cohort.
    pub runs: Times,
}

impl StageView {
    /// Operations that are suspended now, those that are queued to run again included.
    ///
    /// ```
    /// let view = phalanx_core::StageView { suspended: 5, ..Default::default() };
    /// assert_eq!(view.suspended_now(), 5);
    /// ```
    pub fn suspended_now(&self) -> u64 {
        self.suspended.saturating_sub(self.resumed.count + self.ended_suspended)
    }
}

/// One processor at one moment.
#[derive(Clone, Debug, Default)]
pub struct ProcessorView {
    /// By stage, in wavefront order.
    pub stages: Vec<StageView>,
    /// `arcs[from][to]`: operations that stage `from` started or re-enabled at stage `to`. The last
    /// row is the world outside: I/O, timers, other threads.
    pub arcs: Vec<Vec<u64>>,
    /// Operations that came from other processors; those with a count.
    pub crossings: Vec<Crossings>,
    /// Turns of the loop.
    pub turns: u64,
    /// Times that it went to sleep.
    pub parks: u64,
    /// Nanoseconds asleep.
    pub parked_ns: u64,
    /// Nanoseconds in cohorts.
    pub busy_ns: u64,
    /// Other processors that it woke.
    pub wakes_sent: u64,
    /// Operations alive, suspended ones and unfetched results included.
    pub operations: u64,
    /// Bytes of the slabs that operations live in.
    pub memory_bytes: u64,
    /// Bytes of the pools that [`Pooled`](crate::Pooled) objects live in.
    pub pooled_bytes: u64,
    /// Such objects alive.
    pub pooled_objects: u64,
    /// Of both, bytes beyond the processor's [`Region`](crate::Region), if it was given one.
    pub spilled_bytes: u64,
    /// How large the cohorts are of stages that do not say.
    pub ladder: LadderView,
}

/// Operations of one arc that came from another processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossings {
    /// The processor. In a very large program the last ones are counted as one.
    pub processor: usize,
    /// The stage that invoked them there; none if no stage ran.
    pub from: Option<usize>,
    /// The stage that they were invoked at here.
    pub to: usize,
    /// Operations.
    pub count: u64,
}

/// Everything that was counted, at about one moment.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Stage names in wavefront order.
    pub stages: Vec<&'static str>,
    /// By processor.
    pub processors: Vec<ProcessorView>,
}

impl StageCounters {
    fn view(&self, direct: u64) -> StageView {
        let column = |count: &Counter, total: &Counter, max: &Counter| Column {
            count: count.get(),
            total_ns: total.get(),
            max_ns: max.get(),
        };
        let with_direct = |column: Column| Column { count: column.count + direct, ..column };
        StageView {
            direct,
            queue_length: self.queue_length.get(),
            queue_length_max: self.queue_length_max.get(),
            queue_length_sum: self.queue_length_sum.get(),
            started: with_direct(column(&self.started, &self.started_wait, &self.started_wait_max)),
            resumed: column(&self.resumed, &self.resumed_wait, &self.resumed_wait_max),
            completed: with_direct(column(&self.completed, &self.run, &self.run_max)),
            suspended: self.suspended.get(),
            panicked: self.panicked.get(),
            ended: self.ended.get(),
            ended_suspended: self.ended_suspended.get(),
            refused: self.refused.get(),
            interruptions: self.interruptions.get(),
            held: self.held.get(),
            postponed: self.postponed.get(),
            rebuilt: self.rebuilt.get(),
            shed: ShedView {
                deadline: self.shed_deadline.get(),
                admission: self.shed_admission.get(),
                full: self.shed_full.get(),
            },
            cohorts: self.cohorts.get(),
            cohort_max: self.cohort_max.get(),
            cohort_sizes: std::array::from_fn(|bucket| self.cohort_sizes[bucket].get()),
            waits: self.waits.view(),
            runs: self.runs.view(),
        }
    }
}

impl ProcessorCounters {
    /// The arcs from stages of this processor, and from the world.
    pub(crate) fn local_arcs(&self) -> &[Counter] {
        let stages = self.stages.len();
        &self.arcs[..(stages + 1) * stages]
    }

    /// How far behind an arc its operations are counted that were a part of their callers.
    pub(crate) fn beyond(&self) -> usize {
        self.arcs.len() / 2
    }

    /// What an arc has come to, by its place.
    pub(crate) fn arc(&self, at: usize) -> u64 {
        self.arcs[at].get() + self.arcs[self.beyond() + at].get()
    }

    /// Operations of a stage that ran to their end inside of their callers.
    pub(crate) fn direct(&self, stage: usize) -> u64 {
        let inside = self.arcs[self.beyond()..].iter().skip(stage).step_by(self.stages.len());
        let inside = inside.take(self.stages.len() + 1);
        self.stages[stage].direct.get() + inside.map(Counter::get).sum::<u64>()
    }

    /// The arcs from stage `from` of this processor.
    pub(crate) fn local_row(&self, from: usize) -> &[Counter] {
        let stages = self.stages.len();
        &self.arcs[from * stages..][..stages]
    }

    /// The arcs from stage `from` of another processor.
    pub(crate) fn crossing_row(&self, processor: usize, from: usize) -> &[Counter] {
        let stages = self.stages.len();
        let source = 1 + processor.min(self.sources - 1);
        &self.arcs[(source * (stages + 1) + from) * stages..][..stages]
    }

    fn crossings(&self) -> Vec<Crossings> {
        let stages = self.stages.len();
        let mut found = Vec::new();
        let of_source = (stages + 1) * stages;
        for at in of_source..self.beyond() {
            let count = self.arc(at);
            if count > 0 {
                let (from, to) = (at % of_source / stages, at % stages);
                let from = (from < stages).then_some(from);
                found.push(Crossings { processor: at / of_source - 1, from, to, count });
            }
        }
        found
    }

    pub(crate) fn view(&self) -> ProcessorView {
        let stages = self.stages.len();
        ProcessorView {
            stages: (0..stages).map(|n| self.stages[n].view(self.direct(n))).collect(),
            arcs: (0..if stages > 0 { stages + 1 } else { 0 })
                .map(|from| (0..stages).map(|to| self.arc(from * stages + to)).collect())
                .collect(),
            crossings: self.crossings(),
            turns: self.turns.get(),
            parks: self.parks.get(),
            parked_ns: self.parked.get(),
            busy_ns: self.busy.get(),
            wakes_sent: self.wakes_sent.get(),
            operations: self.operations.get(),
            memory_bytes: self.memory.get(),
            pooled_bytes: self.pooled.get(),
            pooled_objects: self.objects.get(),
            spilled_bytes: self.spilled.get(),
            ladder: self.ladder.view(),
        }
    }
}
