//! What was counted, as plain data for the reader.

use crate::metrics::histogram::{COHORT_BUCKETS, Histogram};
use crate::metrics::tuner::CohortTunerView;

/// A number of operations with the mean and the greatest of some time of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
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
    /// [`StageView::rejected`](crate::StageView::rejected) too.
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
    pub started: DurationStats,
    /// Restarted after a suspension, with the wait from being re-enabled to running again.
    pub resumed: DurationStats,
    /// Completed, with the time run by this stage's cohorts: the maximum is a cohort's mean.
    pub completed: DurationStats,
    /// Of those completed, operations that ran inside of their callers, whose time is in their
    /// callers' ([`direct`](crate::StageOptions::direct)).
    pub direct: u64,
    /// Times that an operation suspended itself.
    pub suspended: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations that were ended with their session or at shutdown.
    pub cancelled: u64,
    /// Of these, operations that had started.
    pub cancelled_suspended: u64,
    /// Invocations refused because the processor or the stage was full, or their session ended.
    pub rejected: u64,
    /// What was not begun, by reason.
    pub shed: ShedView,
    /// Cohorts that interrupted another stage's because the
    /// [threshold](crate::StageOptions::threshold) was reached.
    pub preemptions: u64,
    /// Times that the stage was passed over so that its cohort could fill
    /// ([hold](crate::StageOptions::hold)).
    pub hold_skips: u64,
    /// Turns in which nothing was begun here, the cache being taken up by what is on its way
    /// ([`entry`](crate::StageOptions::entry)).
    pub throttled_turns: u64,
    /// Times that a state was made anew after a panic.
    pub state_rebuilds: u64,
    /// Cohorts run.
    pub cohorts: u64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Cohorts by size: 1, 2–3, 4–7, …, 128 and more.
    pub cohort_sizes: [u64; COHORT_BUCKETS],
    /// Operations by their wait until they ran, each at the mean of its cohort.
    pub waits: Histogram,
    /// Operations by their time to run, each at the mean of its cohort.
    pub runs: Histogram,
}

impl StageView {
    /// Operations that are suspended now, those that are queued to run again included.
    ///
    /// ```
    /// let view = phalanx_core::StageView { suspended: 5, ..Default::default() };
    /// assert_eq!(view.suspended_now(), 5);
    /// ```
    pub fn suspended_now(&self) -> u64 {
        self.suspended.saturating_sub(self.resumed.count + self.cancelled_suspended)
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
    pub overflow_bytes: u64,
    /// How large the cohorts are of stages that do not say.
    pub cohort_tuner: CohortTunerView,
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
