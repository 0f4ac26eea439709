//! One moment of a program in figures: the one source of every view.
//!
//! Counters only grow, so the difference of two snapshots is what happened between them: an
//! [`Interval`](super::interval::Interval).

use std::borrow::Cow;
use std::collections::BTreeMap;

use phalanx_core::{COHORT_BUCKETS, LadderView, TIME_BUCKETS, Times};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::counter::Counter;
use super::operation_sizes::BytesSnapshot;

/// The version of the snapshot's form. It changes when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// A name: of our own program, or read from another's snapshot.
pub(crate) type Name = Cow<'static, str>;

/// A program at one moment: `/snapshot.json`. Read one back with `serde_json`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// `"uring"` or `"poll"`.
    pub driver: String,
    /// `"running"`, `"draining"` or `"ending"`.
    pub phase: Name,
    /// Stage names in wavefront order.
    pub stages: Vec<Name>,
    /// Where the buckets of times end, in nanoseconds; the last, which is not here, does not.
    pub time_buckets_ns: Vec<u64>,
    /// Those of the program's own.
    // Programs that had none yet are read too.
    #[cfg_attr(feature = "serde", serde(default))]
    pub counters: Vec<CounterSnapshot>,
    /// Bytes of a processor's second-level cache, as the runtime was told or has asked the machine.
    // Programs that did not tell are read too.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cache_bytes: u64,
    /// What operations take of it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub bytes: BytesSnapshot,
    /// By processor. The last field: it is written piece by piece.
    pub processors: Vec<ProcessorSnapshot>,
}

/// A [`Counter`](crate::metrics::Counter).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct CounterSnapshot {
    /// As declared.
    pub name: Name,
    /// What is counted, in a sentence.
    pub help: Name,
    /// The name and the value of its label, if it is one of several of its name.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub label: Option<[Name; 2]>,
    /// How much so far.
    pub count: u64,
}

impl From<&Counter> for CounterSnapshot {
    fn from(counter: &Counter) -> Self {
        let label = counter.label().map(|(name, value)| [name.into(), value.into()]);
        let (name, help) = (counter.name().into(), counter.help().into());
        Self { name, help, label, count: counter.count() }
    }
}

/// One processor.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ProcessorSnapshot {
    /// From zero.
    pub processor: usize,
    /// Turns of its loop.
    pub turns: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Nanoseconds asleep.
    pub parked_ns: u64,
    /// Nanoseconds in cohorts.
    pub busy_ns: u64,
    /// Other processors that it woke.
    pub wakes_sent: u64,
    /// System calls of its driver.
    pub system_calls: u64,
    /// Operations alive when it last slept or was looked at.
    pub operations: u64,
    /// Bytes of its slabs.
    pub memory_bytes: u64,
    /// Bytes of the pools of its requests' objects.
    // Programs that had none of these yet are read too.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pooled_bytes: u64,
    /// Objects alive in these.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pooled_objects: u64,
    /// Of both, bytes beyond its region of huge pages.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overflow_bytes: u64,
    /// How large the cohorts are of stages that declare no size.
    // Programs that had no ladder yet are read too.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cohort_tuner: CohortTunerSnapshot,
    /// By stage.
    pub stages: Vec<StageSnapshot>,
    /// Where operations were invoked or re-enabled from; those with a count.
    pub arcs: Vec<ArcSnapshot>,
}

/// What a processor has found about the size of cohorts; see [`phalanx_core::LadderView`].
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct CohortTunerSnapshot {
    /// The size in use; at 1 calls run inside of their callers. Zero before the first trial.
    pub cohort: u64,
    /// The size that the last trial has kept; zero before it.
    pub kept: u64,
    /// Trials that are over.
    pub trials: u64,
    /// Whether one is under way.
    pub trying: bool,
    /// Nanoseconds for an operation at 1, 8, 32, 64, 128, 256 and 512; zero for those not tried.
    pub costs_ns: Vec<f64>,
}

impl From<LadderView> for CohortTunerSnapshot {
    fn from(view: LadderView) -> Self {
        Self {
            cohort: view.rung,
            kept: view.kept,
            trials: view.trials,
            trying: view.trying,
            costs_ns: view.costs_ps.iter().map(|cost| *cost as f64 / 1000.0).collect(),
        }
    }
}

/// One stage on one processor: the columns of the 2002 paper's Figure 4.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct StageSnapshot {
    /// Its name.
    pub stage: Name,
    /// Operations queued when its last cohort began.
    pub queue_length: u64,
    /// The mean over all cohorts.
    pub queue_length_mean: f64,
    /// The most that a cohort found.
    pub queue_length_max: u64,
    /// Operations started, and their wait since the invocation.
    pub started: ColumnSnapshot,
    /// Operations restarted after a suspension, and their wait since they were re-enabled.
    pub resumed: ColumnSnapshot,
    /// Operations completed, and the time that the stage ran, per operation run.
    pub completed: ColumnSnapshot,
    /// How long operations waited to be started or restarted; each is counted at its cohort's mean.
    pub waits: TimesSnapshot,
    /// How long operations ran, each time; each is counted at its cohort's mean.
    pub runs: TimesSnapshot,
    /// Of those completed, operations that ran inside of their callers.
    #[cfg_attr(feature = "serde", serde(default))]
    pub direct: u64,
    /// Times that operations suspended.
    pub suspended: u64,
    /// Operations that are suspended now, those that are queued to run again included.
    pub suspended_now: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations ended with their session.
    pub cancelled: u64,
    /// Invocations refused at the bound, or into a session that had ended.
    pub rejected: u64,
    /// Operations that ran for longer than [`Runtime::stall_threshold`](crate::Runtime::stall_threshold).
    // Programs that did not count these yet are read too.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stalled: u64,
    /// Cohorts that interrupted another stage's, a threshold being reached.
    #[cfg_attr(feature = "serde", serde(default))]
    pub preemptions: u64,
    /// Times that the stage was passed over so that its cohort could fill.
    #[cfg_attr(feature = "serde", serde(default))]
    pub hold_skips: u64,
    /// Turns in which nothing was begun, the cache being taken up by what is on its way.
    #[cfg_attr(feature = "serde", serde(default))]
    pub throttled_turns: u64,
    /// Times that its state was made anew after a panic.
    #[cfg_attr(feature = "serde", serde(default))]
    pub state_rebuilds: u64,
    /// Work that was not begun, by reason: `deadline`, its session's had passed; `admission`, no
    /// credit for it at the stage that asked; `full`, a bound was reached (in `rejected` too).
    pub shed: BTreeMap<Name, u64>,
    /// Cohorts run.
    pub cohorts: u64,
    /// Operations in a cohort, on average.
    pub cohort_mean: f64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Cohorts of 1, 2–3, 4–7, …, 128 and more operations.
    pub cohort_sizes: [u64; COHORT_BUCKETS],
}

/// A count with the mean and the maximum of a time.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ColumnSnapshot {
    /// Operations.
    pub count: u64,
    /// Nanoseconds, all together.
    pub total_ns: u64,
    /// Nanoseconds, on average.
    pub mean_ns: f64,
    /// Nanoseconds, at most.
    pub max_ns: u64,
}

/// Operations by a time of theirs.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct TimesSnapshot {
    /// Half of them took no longer, in nanoseconds.
    pub p50_ns: f64,
    /// Of a hundred, 99 took no longer, in nanoseconds.
    pub p99_ns: f64,
    /// How many in each bucket; see [`Snapshot::time_buckets_ns`].
    pub buckets: [u64; TIME_BUCKETS],
}

impl From<Times> for TimesSnapshot {
    fn from(times: Times) -> Self {
        let (p50_ns, p99_ns) = (times.percentile_ns(50.0), times.percentile_ns(99.0));
        Self { p50_ns, p99_ns, buckets: times.0 }
    }
}

/// Operations that one stage invoked or re-enabled at another.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ArcSnapshot {
    /// A stage, or none for the world outside: I/O, timers, other threads, and results from other
    /// processors.
    pub from: Option<Name>,
    /// The processor they came from, if not this one.
    pub from_processor: Option<usize>,
    /// A stage.
    pub to: Name,
    /// Operations.
    pub count: u64,
}

impl Snapshot {
    /// The smallest and the largest size of cohorts that processors have found and use for the stages
    /// that declare none; none while no processor has found any.
    pub fn cohorts_found(&self) -> Option<(u64, u64)> {
        let found = self.processors.iter().map(|processor| &processor.cohort_tuner);
        let sizes = found.filter(|tuner| tuner.kept > 0).map(|tuner| tuner.kept);
        sizes.fold(None, |range, size| {
            let (least, most) = range.unwrap_or((size, size));
            Some((size.min(least), size.max(most)))
        })
    }
}
