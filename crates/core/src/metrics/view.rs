//! Snapshots of the counters, as plain data.

use crate::metrics::histogram::{COHORT_BUCKETS, Histogram};
use crate::metrics::tuner::CohortTunerView;

/// Duration statistics: the count, total and maximum of one kind of duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
    /// The number of operations.
    pub count: u64,
    /// The sum of their durations, in nanoseconds.
    pub total_ns: u64,
    /// The longest duration, in nanoseconds.
    pub max_ns: u64,
}

/// Operations shed before they started, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShedView {
    /// Operations whose session's deadline passed before they started.
    pub deadline: u64,
    /// Rejections by [`Ingress::admit`](crate::Ingress::admit), counted at the stage that requested the permit.
    pub admission: u64,
    /// Invocations beyond [`Graph::max_operations`](crate::Graph::max_operations) or the stage's
    /// [capacity](crate::StageOptions::capacity); included in [`StageView::rejected`].
    pub full: u64,
}

/// A snapshot of one stage on one processor, after the columns of Figure 4 of the 2002 paper; run times (§3.5) and cohorts
/// in addition. All values are totals since the start unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct StageView {
    /// The number of operations queued when the last cohort began.
    pub queue_length: u64,
    /// The longest queue found by a cohort.
    pub queue_length_max: u64,
    /// The sum of the queue lengths found by all cohorts. Divide it by [`cohorts`](Self::cohorts) for the mean.
    pub queue_length_sum: u64,
    /// Operations started, with their wait from invocation to start.
    pub started: DurationStats,
    /// Operations resumed after a suspension, with their wait from being woken to running again.
    pub resumed: DurationStats,
    /// Operations completed, with the run time of this stage's cohorts. The maximum is the largest mean of a cohort.
    pub completed: DurationStats,
    /// The completed operations that ran inline in their callers. Their run time is included in the run time of their
    /// callers ([`direct`](crate::StageOptions::direct)).
    pub direct: u64,
    /// Suspensions of operations.
    pub suspended: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations cancelled by their caller, by the end of their session, or at shutdown.
    pub cancelled: u64,
    /// Cancelled operations that had started.
    pub cancelled_suspended: u64,
    /// Invocations rejected because the processor or the stage was full, or their session had ended.
    pub rejected: u64,
    /// Operations shed before they started, by reason.
    pub shed: ShedView,
    /// Cohorts that preempted a cohort of another stage because the [threshold](crate::StageOptions::threshold) was
    /// reached.
    pub preemptions: u64,
    /// The number of times that the stage was skipped so that its cohort could fill
    /// ([hold](crate::StageOptions::hold)).
    pub hold_skips: u64,
    /// Turns in which no operation started here because the operations in progress already fill the
    /// cache: at an [entry](crate::StageOptions::entry), or at any stage with
    /// [`Ingress::BudgetEveryStage`](crate::Ingress::BudgetEveryStage).
    pub throttled_turns: u64,
    /// Rebuilds of the state after a panic.
    pub state_rebuilds: u64,
    /// The current size in bytes of this processor's replicas, without the shared values
    /// ([`ReplicatedStage`](crate::ReplicatedStage)).
    pub replica_bytes: u64,
    /// Cohorts run.
    pub cohorts: u64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Cohorts by size: 1, 2–3, 4–7, …, 128 and more.
    pub cohort_sizes: [u64; COHORT_BUCKETS],
    /// Operations by the time that they waited before they ran, each at the mean of its cohort.
    pub waits: Histogram,
    /// Operations by their run time, each at the mean of its cohort.
    pub runs: Histogram,
}

impl StageView {
    /// The number of operations that are currently suspended, including those queued to run again.
    ///
    /// ```
    /// let view = phalanx_core::StageView { suspended: 5, ..Default::default() };
    /// assert_eq!(view.suspended_now(), 5);
    /// ```
    pub fn suspended_now(&self) -> u64 {
        self.suspended.saturating_sub(self.resumed.count + self.cancelled_suspended)
    }
}

/// A snapshot of one processor.
#[derive(Clone, Debug, Default)]
pub struct ProcessorView {
    /// By stage, in wavefront order.
    pub stages: Vec<StageView>,
    /// `arcs[from][to]` is the number of operations that stage `from` invoked or woke on stage `to`. The last row is
    /// the outside: I/O, timers and other threads.
    pub arcs: Vec<Vec<u64>>,
    /// The arcs from other processors that have a nonzero count.
    pub crossings: Vec<Crossings>,
    /// Turns of the processor's loop.
    pub turns: u64,
    /// The number of times that the processor parked.
    pub parks: u64,
    /// Nanoseconds parked.
    pub parked_ns: u64,
    /// Nanoseconds spent running cohorts.
    pub busy_ns: u64,
    /// Wake-ups sent to other processors.
    pub wakes_sent: u64,
    /// Live operations, including suspended ones and unfetched results.
    pub operations: u64,
    /// Bytes of the slab of operations.
    pub memory_bytes: u64,
    /// Bytes of the pools of [`Pooled`](crate::Pooled) objects.
    pub pooled_bytes: u64,
    /// Live pooled objects.
    pub pooled_objects: u64,
    /// Bytes of slab and pools outside the processor's [`Region`](crate::Region); zero without a region.
    pub overflow_bytes: u64,
    /// Partitions of [migrating](crate::StageOptions::migrating) stages taken over from sleeping processors.
    pub take_overs: u64,
    /// The tuner of cohort sizes, for stages that declare none.
    pub cohort_tuner: CohortTunerView,
}

/// The count of one arc from another processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossings {
    /// The source processor. In a very large program, the last processors share one count.
    pub processor: usize,
    /// The invoking stage on that processor; `None` if no stage was running.
    pub from: Option<usize>,
    /// The invoked stage on this processor.
    pub to: usize,
    /// The number of operations.
    pub count: u64,
}

/// A snapshot of all counters, taken at approximately the same time.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Stage names in wavefront order.
    pub stages: Vec<&'static str>,
    /// Snapshots of the processors, by index.
    pub processors: Vec<ProcessorView>,
}
