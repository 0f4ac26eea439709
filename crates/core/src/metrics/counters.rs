//! The counters of each stage on each processor, which are always enabled: after the columns of Figure 4 of the 2002
//! paper, with run times (§3.5) for completed operations, and cohorts in addition.
//!
//! Only its processor writes a counter, once per cohort (for arcs, once per invocation) and without an atomic
//! read-modify-write operation. Any thread may read it at any time. Each value is consistent, but several values are
//! not read at the same instant.
//!
//! With `--cfg uncounted`, nothing is counted. This is only used to measure the cost of counting (`cargo xtask
//! cost-of-counting`).

use std::sync::Arc;

use crate::metrics::counter::Counter;
use crate::metrics::histogram::{COHORT_BUCKETS, HistogramCounters};
use crate::metrics::operation_types::OperationTypes;
use crate::metrics::recorder::Recorder;
use crate::metrics::tuner::TunerCounters;
use crate::metrics::view::{Crossings, DurationStats, ProcessorView, ShedView, StageView};
use crate::metrics::watch::Watch;

/// The counters of one stage on one processor. Times are in nanoseconds.
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
    /// Operations called and completed inline in their callers; not included in `started` and `completed`. Operations
    /// that became part of their callers are counted in [`ProcessorCounters::arcs`].
    pub(crate) direct: Counter,
    pub(crate) completed: Counter,
    pub(crate) panicked: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) cancelled_suspended: Counter,
    pub(crate) rejected: Counter,
    pub(crate) preemptions: Counter,
    pub(crate) hold_skips: Counter,
    pub(crate) throttled_turns: Counter,
    pub(crate) state_rebuilds: Counter,
    pub(crate) replica_bytes: Counter,
    pub(crate) shed_deadline: Counter,
    pub(crate) shed_admission: Counter,
    pub(crate) shed_full: Counter,
    pub(crate) run: Counter,
    pub(crate) run_max: Counter,
    pub(crate) cohorts: Counter,
    pub(crate) cohort_max: Counter,
    pub(crate) cohort_sizes: [Counter; COHORT_BUCKETS],
    pub(crate) waits: HistogramCounters,
    pub(crate) runs: HistogramCounters,
}

/// The counters of one processor, and of each stage on it.
#[derive(Default)]
pub(crate) struct ProcessorCounters {
    pub(crate) stages: Box<[StageCounters]>,
    /// Indexed by `[(source * (stages + 1) + from) * stages + to]`; `from == stages` stands for the outside (I/O,
    /// timers, other threads). Source 0 is this processor, and source `1 + p` is processor `p`. Three parts with this
    /// layout follow each other: invocations, operations that became part of their callers and are not included in the
    /// first part, and resumptions.
    pub(crate) arcs: Box<[Counter]>,
    /// The number of other processors counted separately as sources; the rest share the last one.
    sources: usize,
    pub(crate) recorder: Recorder,
    pub(crate) turns: Counter,
    pub(crate) parks: Counter,
    pub(crate) parked: Counter,
    /// The time parked, including the current sleep, in one word that other threads can read consistently
    /// ([`Self::parked_until`]).
    parked_word: Counter,
    pub(crate) busy: Counter,
    pub(crate) wakes_sent: Counter,
    pub(crate) operations: Counter,
    pub(crate) memory: Counter,
    pub(crate) pooled: Counter,
    pub(crate) objects: Counter,
    pub(crate) overflow: Counter,
    pub(crate) take_overs: Counter,
    pub(crate) cohort_tuner: TunerCounters,
    pub(crate) watch: Watch,
    pub(crate) types: OperationTypes,
}

impl ProcessorCounters {
    /// Records that the processor parks.
    pub(crate) fn record_park(&self, now: u64) {
        // An odd word contains the time at which this sleep would have begun if it included all earlier ones.
        self.parked_word.set(now.saturating_sub(self.parked.get()) << 1 | 1);
    }

    /// Records the nanoseconds of a sleep that is over.
    pub(crate) fn record_unpark(&self, time: u64) {
        self.parked.add(time);
        // An even word contains the total time of all sleeps.
        self.parked_word.set(self.parked.get() << 1);
    }

    /// The nanoseconds parked until `now`, including the current sleep. Can be called from any thread.
    pub(crate) fn parked_until(&self, now: u64) -> u64 {
        let word = self.parked_word.get();
        if word & 1 == 0 { word >> 1 } else { now.saturating_sub(word >> 1) }
    }

    pub(crate) fn new(stages: usize, processors: usize) -> Arc<Self> {
        let sources = processors.min(MAX_ARCS / ((stages + 1) * stages.max(1))).max(1);
        Arc::new(Self {
            sources,
            stages: (0..stages).map(|_| StageCounters::default()).collect(),
            arcs: (0..3 * (1 + sources) * (stages + 1) * stages)
                .map(|_| Counter::default())
                .collect(),
            ..Self::default()
        })
    }
}

/// The maximum number of arc counters of a processor, including arcs from other processors.
const MAX_ARCS: usize = 1 << 16;

/// The bucket for a cohort of `size` operations.
pub(crate) fn cohort_bucket(size: u64) -> usize {
    (63 - size.max(1).leading_zeros() as usize).min(COHORT_BUCKETS - 1)
}

/// Creates a snapshot with the values of the counters that have the same names, and further fields.
macro_rules! read {
    ($counters:ident, $view:ident { $($name:ident),*; $($rest:tt)* }) => {
        $view { $($name: $counters.$name.get(),)* $($rest)* }
    };
}

impl StageCounters {
    fn view(&self, direct: u64) -> StageView {
        let column = |count: &Counter, total: &Counter, max: &Counter| DurationStats {
            count: count.get(),
            total_ns: total.get(),
            max_ns: max.get(),
        };
        let with_direct =
            |column: DurationStats| DurationStats { count: column.count + direct, ..column };
        read!(self, StageView {
            queue_length, queue_length_max, queue_length_sum, suspended, panicked, cancelled,
            cancelled_suspended, rejected, preemptions, hold_skips, throttled_turns,
            state_rebuilds, replica_bytes, cohorts, cohort_max;
            direct,
            started: with_direct(column(&self.started, &self.started_wait, &self.started_wait_max)),
            resumed: column(&self.resumed, &self.resumed_wait, &self.resumed_wait_max),
            completed: with_direct(column(&self.completed, &self.run, &self.run_max)),
            shed: ShedView {
                deadline: self.shed_deadline.get(),
                admission: self.shed_admission.get(),
                full: self.shed_full.get(),
            },
            cohort_sizes: std::array::from_fn(|bucket| self.cohort_sizes[bucket].get()),
            waits: self.waits.view(),
            runs: self.runs.view(),
        })
    }
}

impl ProcessorCounters {
    /// The arcs from the stages of this processor and from the outside.
    pub(crate) fn local_arcs(&self) -> &[Counter] {
        let stages = self.stages.len();
        &self.arcs[..(stages + 1) * stages]
    }

    /// The distance in counters from an arc to the counter of its fused operations, and from there to the counter of
    /// its resumptions.
    pub(crate) fn arcs_per_part(&self) -> usize {
        self.arcs.len() / 3
    }

    /// The total count of an arc, by its index.
    pub(crate) fn arc(&self, at: usize) -> u64 {
        self.invocations(at) + self.arcs[2 * self.arcs_per_part() + at].get()
    }

    /// The invocations of an arc, by its index.
    fn invocations(&self, at: usize) -> u64 {
        self.arcs[at].get() + self.arcs[self.arcs_per_part() + at].get()
    }

    /// The invocations on this processor by each stage of any processor, as `[from * stages + to]`. The last row is the
    /// outside.
    pub(crate) fn invoked(&self) -> Vec<u64> {
        let stages = self.stages.len();
        let one = (stages + 1) * stages;
        let sum = |of: usize| {
            (of..self.arcs_per_part()).step_by(one.max(1)).map(|at| self.invocations(at)).sum()
        };
        (0..one).map(sum).collect()
    }

    /// Operations of a stage that completed inline in their callers.
    pub(crate) fn direct(&self, stage: usize) -> u64 {
        let fused = self.arcs[self.arcs_per_part()..].iter().skip(stage).step_by(self.stages.len());
        let fused = fused.take(self.stages.len() + 1);
        self.stages[stage].direct.get() + fused.map(Counter::get).sum::<u64>()
    }

    /// The arcs from stage `from` of this processor, one for each stage.
    pub(crate) fn local_row(&self, from: usize) -> *const Counter {
        self.row(from * self.stages.len())
    }

    /// The row that begins at an arc. The pointer may also be used to access the other rows.
    fn row(&self, first: usize) -> *const Counter {
        assert!(first + self.stages.len() <= self.arcs_per_part());
        self.arcs.as_ptr().wrapping_add(first)
    }

    /// The arcs from stage `from` of another processor, one for each stage.
    pub(crate) fn crossing_row(&self, processor: usize, from: usize) -> *const Counter {
        let stages = self.stages.len();
        let source = 1 + processor.min(self.sources - 1);
        self.row((source * (stages + 1) + from) * stages)
    }

    fn crossings(&self) -> Vec<Crossings> {
        let stages = self.stages.len();
        let mut found = Vec::new();
        let of_source = (stages + 1) * stages;
        for at in of_source..self.arcs_per_part() {
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
        read!(self, ProcessorView {
            turns, parks, wakes_sent, operations, take_overs;
            stages: (0..stages).map(|n| self.stages[n].view(self.direct(n))).collect(),
            arcs: (0..if stages > 0 { stages + 1 } else { 0 })
                .map(|from| (0..stages).map(|to| self.arc(from * stages + to)).collect())
                .collect(),
            crossings: self.crossings(),
            parked_ns: self.parked.get(),
            busy_ns: self.busy.get(),
            memory_bytes: self.memory.get(),
            pooled_bytes: self.pooled.get(),
            pooled_objects: self.objects.get(),
            overflow_bytes: self.overflow.get(),
            cohort_tuner: self.cohort_tuner.view(),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_time_parked_includes_the_current_sleep() {
        let counters = ProcessorCounters::new(0, 1);
        let until = |now| counters.parked_until(now);
        assert_eq!(until(100), 0);
        counters.record_park(100);
        assert_eq!((until(100), until(150), counters.parked.get()), (0, 50, 0));
        counters.record_unpark(60);
        assert_eq!((until(160), until(500), counters.parked.get()), (60, 60, 60));
        counters.record_park(500);
        assert_eq!((until(500), until(510)), (60, 70));
        counters.record_unpark(10);
        assert_eq!((until(510), counters.view().parked_ns), (70, 70));
    }
}
