//! Snapshots, which contain all metrics of a program at one moment.
//!
//! Counters only grow, so the difference of two snapshots is an [`Interval`](super::interval::Interval).

use std::borrow::Cow;
use std::collections::BTreeMap;

use phalanx_core::{COHORT_BUCKETS, CohortTunerView, HISTOGRAM_BUCKETS, Histogram};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::byte_table::BytesSnapshot;
use super::counter::Counter;
use super::gauge::Gauge;
use super::placement::PlacementSnapshot;
use super::times::Times;

/// Version of the format. It changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

/// A name, which is static within the program and owned after deserialization.
pub(crate) type Name = Cow<'static, str>;

/// The metrics of a program at one moment, as served at `/snapshot.json`. Deserialize it with `serde_json`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// A random number that identifies this run of the program. Zero in snapshots of older programs.
    #[cfg_attr(feature = "serde", serde(default))]
    pub run: u64,
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// `"uring"` or `"poll"`.
    pub driver: String,
    /// `"running"`, `"draining"` or `"ending"`.
    pub phase: Name,
    /// Stage names in wavefront order.
    pub stages: Vec<Name>,
    /// Upper bounds of the time buckets in nanoseconds, without the last bucket, which is unbounded.
    pub time_buckets_ns: Vec<u64>,
    /// The program's own counters. Snapshots of older programs have none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub counters: Vec<CounterSnapshot>,
    /// Gauges of the program.
    #[cfg_attr(feature = "serde", serde(default))]
    pub gauges: Vec<GaugeSnapshot>,
    /// Histograms of the program.
    #[cfg_attr(feature = "serde", serde(default))]
    pub times: Vec<HistogramSnapshot>,
    /// Bytes of a core's second-level cache, configured or from the system. Zero in snapshots of older
    /// programs.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cache_bytes: u64,
    /// Memory sizes of operations.
    #[cfg_attr(feature = "serde", serde(default))]
    pub bytes: BytesSnapshot,
    /// Automatic placement. `None` if it is off, and in snapshots of older programs.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub placement: Option<PlacementSnapshot>,
    /// By processor. Must be the last field, because it is written in pieces.
    pub processors: Vec<ProcessorSnapshot>,
}

/// A [`Counter`](crate::metrics::Counter).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct CounterSnapshot {
    /// Its name.
    pub name: Name,
    /// Its help text.
    pub help: Name,
    /// Label name and value, if it has a label.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub label: Option<[Name; 2]>,
    /// The count.
    pub count: u64,
}

impl From<&Counter> for CounterSnapshot {
    fn from(counter: &Counter) -> Self {
        let label = counter.label().map(|(name, value)| [name.into(), value.to_owned().into()]);
        let (name, help) = (counter.name().into(), counter.help().into());
        Self { name, help, label, count: counter.count() }
    }
}

/// A [`Gauge`](crate::metrics::Gauge).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct GaugeSnapshot {
    /// The registered name.
    pub name: Name,
    /// The help text.
    pub help: Name,
    /// Label name and value, if it has a label.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub label: Option<[Name; 2]>,
    /// The current value.
    pub value: i64,
}

impl From<&Gauge> for GaugeSnapshot {
    fn from(gauge: &Gauge) -> Self {
        let label = gauge.label().map(|(name, value)| [name.into(), value.to_owned().into()]);
        Self { name: gauge.name().into(), help: gauge.help().into(), label, value: gauge.get() }
    }
}

/// One processor.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ProcessorSnapshot {
    /// The processor's number, from zero.
    pub processor: usize,
    /// Turns of the loop.
    pub turns: u64,
    /// Number of parks.
    pub parks: u64,
    /// Nanoseconds parked.
    pub parked_ns: u64,
    /// Nanoseconds in cohorts.
    pub busy_ns: u64,
    /// Wake-ups of other processors.
    pub wakes_sent: u64,
    /// System calls of the driver.
    pub system_calls: u64,
    /// Live operations at the processor's last park or at the last request for a snapshot.
    pub operations: u64,
    /// Bytes of slabs.
    pub memory_bytes: u64,
    /// Bytes of object pools. Zero in snapshots of older programs.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pooled_bytes: u64,
    /// Live pooled objects.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pooled_objects: u64,
    /// Bytes of slabs and pools outside the region of huge pages.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overflow_bytes: u64,
    /// Partitions of migrating stages that the processor has taken over from sleeping processors.
    #[cfg_attr(feature = "serde", serde(default))]
    pub take_overs: u64,
    /// Automatic cohort sizes of stages that declare no size.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cohort_tuner: CohortTunerSnapshot,
    /// By stage.
    pub stages: Vec<StageSnapshot>,
    /// The sources of operations that were started or resumed here. Zero counts are omitted.
    pub arcs: Vec<ArcSnapshot>,
}

/// Results of the cohort tuner on a processor; see [`phalanx_core::CohortTunerView`].
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct CohortTunerSnapshot {
    /// The size in use. At 1, calls run inside their callers. Zero before the first trial.
    pub cohort: u64,
    /// The size chosen by the last trial; zero before it.
    pub kept: u64,
    /// Completed trials.
    pub trials: u64,
    /// Whether a trial is running.
    pub trying: bool,
    /// Nanoseconds per operation at sizes 1, 8, 32, 64, 128, 256 and 512; zero if not measured.
    pub costs_ns: Vec<f64>,
}

impl From<CohortTunerView> for CohortTunerSnapshot {
    fn from(view: CohortTunerView) -> Self {
        Self {
            cohort: view.rung,
            kept: view.kept,
            trials: view.trials,
            trying: view.trying,
            costs_ns: view.costs_ps.iter().map(|cost| *cost as f64 / 1000.0).collect(),
        }
    }
}

/// One stage on one processor, after the columns of Figure 4 of the 2002 paper; run times (§3.5) and cohorts in addition.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct StageSnapshot {
    /// Its name.
    pub stage: Name,
    /// Operations queued when its last cohort started.
    pub queue_length: u64,
    /// The mean over all cohorts.
    pub queue_length_mean: f64,
    /// The longest queue found by a cohort.
    pub queue_length_max: u64,
    /// Operations started, and their wait since the invocation.
    pub started: ColumnSnapshot,
    /// Operations resumed after a suspension, and their wait since they were woken.
    pub resumed: ColumnSnapshot,
    /// Operations completed, and the run time per operation run in a cohort.
    pub completed: ColumnSnapshot,
    /// Waits before a start or resumption; each operation counts with the mean of its cohort.
    pub waits: TimesSnapshot,
    /// Run times between suspensions; each operation counts with the mean of its cohort.
    pub runs: TimesSnapshot,
    /// Completed operations that ran inside their callers.
    #[cfg_attr(feature = "serde", serde(default))]
    pub direct: u64,
    /// Number of suspensions.
    pub suspended: u64,
    /// Operations that are currently suspended, including those queued to resume.
    pub suspended_now: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations cancelled by their caller, by the end of their session, or at shutdown.
    pub cancelled: u64,
    /// Invocations rejected because the queue was full or the session had ended.
    pub rejected: u64,
    /// Operations that ran for longer than [`Runtime::stall_threshold`](crate::Runtime::stall_threshold).
    #[cfg_attr(feature = "serde", serde(default))]
    pub stalled: u64,
    /// Cohorts that preempted another stage because a threshold was reached.
    #[cfg_attr(feature = "serde", serde(default))]
    pub preemptions: u64,
    /// Turns that skipped the stage so that its cohort could fill.
    #[cfg_attr(feature = "serde", serde(default))]
    pub hold_skips: u64,
    /// Turns that started nothing because operations in flight already filled the cache.
    #[cfg_attr(feature = "serde", serde(default))]
    pub throttled_turns: u64,
    /// The number of times that the state was rebuilt after a panic.
    #[cfg_attr(feature = "serde", serde(default))]
    pub state_rebuilds: u64,
    /// Operations that were not started, by reason: `deadline` (the session's deadline had passed), `admission` (the
    /// calling stage had no credit), `full` (a bound was reached; also counted in `rejected`).
    pub shed: BTreeMap<Name, u64>,
    /// Cohorts run.
    pub cohorts: u64,
    /// Mean operations per cohort.
    pub cohort_mean: f64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Cohorts of 1, 2–3, 4–7, …, 128 and more operations.
    pub cohort_sizes: [u64; COHORT_BUCKETS],
}

/// A count, and the mean and maximum of a time.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ColumnSnapshot {
    /// Operations.
    pub count: u64,
    /// Nanoseconds, summed.
    pub total_ns: u64,
    /// Nanoseconds, mean.
    pub mean_ns: f64,
    /// Nanoseconds, maximum.
    pub max_ns: u64,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct TimesSnapshot {
    /// Median in nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: f64,
    /// Operations per bucket; see [`Snapshot::time_buckets_ns`].
    pub buckets: [u64; HISTOGRAM_BUCKETS],
}

impl From<Histogram> for TimesSnapshot {
    fn from(times: Histogram) -> Self {
        let (p50_ns, p99_ns) = (times.percentile_ns(50.0), times.percentile_ns(99.0));
        Self { p50_ns, p99_ns, buckets: times.0 }
    }
}

/// [`Times`](crate::metrics::Times) of the program.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct HistogramSnapshot {
    /// The registered name.
    pub name: Name,
    /// The help text.
    pub help: Name,
    /// Nanoseconds, summed.
    pub sum_ns: u64,
    /// The distribution since the start.
    pub times: TimesSnapshot,
}

impl From<&Times> for HistogramSnapshot {
    fn from(times: &Times) -> Self {
        let (histogram, sum) = times.counts();
        let (name, help) = (times.name().into(), times.help().into());
        Self { name, help, sum_ns: sum.as_nanos() as u64, times: histogram.into() }
    }
}

/// The operations that one stage started or resumed on another.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ArcSnapshot {
    /// The source stage; `None` for I/O, timers, other threads, and results from other processors.
    pub from: Option<Name>,
    /// The source processor, if it is not this one.
    pub from_processor: Option<usize>,
    /// A stage.
    pub to: Name,
    /// Number of operations.
    pub count: u64,
}

impl Snapshot {
    /// The smallest and largest cohort size that processors have chosen automatically; `None` before the first result.
    pub fn cohort_size_range(&self) -> Option<(u64, u64)> {
        let found = self.processors.iter().map(|processor| &processor.cohort_tuner);
        let sizes = found.filter(|tuner| tuner.kept > 0).map(|tuner| tuner.kept);
        sizes.fold(None, |range, size| {
            let (min, max) = range.unwrap_or((size, size));
            Some((size.min(min), size.max(max)))
        })
    }
}
