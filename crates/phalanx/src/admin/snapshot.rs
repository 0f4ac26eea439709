//! One moment of a program in figures: the one source of every view.
//!
//! Counters only grow, so the difference of two snapshots is what happened between them.

use std::sync::atomic::Ordering;

use phalanx_core::{COHORT_BUCKETS, Column, Phase, ShedView, StageView};
use serde::Serialize;

use super::Source;

/// The version of the snapshot's form. It changes when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// A program at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// `"uring"` or `"poll"`.
    pub driver: String,
    /// `"running"`, `"draining"` or `"ending"`.
    pub phase: &'static str,
    /// Stage names in wavefront order.
    pub stages: Vec<&'static str>,
    /// By processor.
    pub processors: Vec<ProcessorSnapshot>,
}

/// One processor.
#[derive(Clone, Debug, Serialize)]
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
    /// By stage.
    pub stages: Vec<StageSnapshot>,
    /// Where operations were invoked or re-enabled from; those with a count.
    pub arcs: Vec<ArcSnapshot>,
}

/// One stage on one processor: the columns of the 2002 paper's Figure 4.
#[derive(Clone, Debug, Serialize)]
pub struct StageSnapshot {
    /// Its name.
    pub stage: &'static str,
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
    /// Times that operations suspended.
    pub suspended: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations ended with their session.
    pub ended: u64,
    /// Invocations refused at the bound, or into a session that had ended.
    pub refused: u64,
    /// Operations that ran for longer than [`Runtime::long_operation`](crate::Runtime::long_operation).
    pub long_operations: u64,
    /// What was not begun, by reason.
    pub shed: ShedSnapshot,
    /// Cohorts run.
    pub cohorts: u64,
    /// Operations in a cohort, on average.
    pub cohort_mean: f64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Cohorts of 1, 2–3, 4–7, …, 128 and more operations.
    pub cohort_sizes: [u64; COHORT_BUCKETS],
}

/// What was not begun, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ShedSnapshot {
    /// Operations whose session's deadline had passed.
    pub deadline: u64,
    /// Refused for want of a credit, at the stage that asked for one.
    pub admission: u64,
    /// Invocations at the bound of operations; they are in `refused` too.
    pub full: u64,
}

/// A count with the mean and the maximum of a time.
#[derive(Clone, Copy, Debug, Serialize)]
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

/// Operations that one stage invoked or re-enabled at another.
#[derive(Clone, Debug, Serialize)]
pub struct ArcSnapshot {
    /// A stage, or none for the world outside: I/O, timers, other threads and processors.
    pub from: Option<&'static str>,
    /// A stage.
    pub to: &'static str,
    /// Operations.
    pub count: u64,
}

fn shed(shed: ShedView) -> ShedSnapshot {
    ShedSnapshot { deadline: shed.deadline, admission: shed.admission, full: shed.full }
}

fn mean(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

fn column(column: Column, per: u64) -> ColumnSnapshot {
    ColumnSnapshot {
        count: column.count,
        total_ns: column.total_ns,
        mean_ns: mean(column.total_ns, per),
        max_ns: column.max_ns,
    }
}

fn stage(name: &'static str, view: &StageView, long_operations: u64) -> StageSnapshot {
    let ran = view.started.count + view.resumed.count;
    StageSnapshot {
        stage: name,
        queue_length: view.queue_length,
        queue_length_mean: mean(view.queue_length_sum, view.cohorts),
        queue_length_max: view.queue_length_max,
        started: column(view.started, view.started.count),
        resumed: column(view.resumed, view.resumed.count),
        completed: column(view.completed, ran),
        suspended: view.suspended,
        panicked: view.panicked,
        ended: view.ended,
        refused: view.refused,
        long_operations,
        shed: shed(view.shed),
        cohorts: view.cohorts,
        cohort_mean: mean(ran, view.cohorts),
        cohort_max: view.cohort_max,
        cohort_sizes: view.cohort_sizes,
    }
}

impl Snapshot {
    pub(super) fn take(source: &Source) -> Self {
        let profile = source.control.profile();
        let names = &profile.stages;
        let processors = profile.processors.iter().zip(&source.system_calls).enumerate();
        let processors = processors.map(|(processor, (view, calls))| ProcessorSnapshot {
            processor,
            turns: view.turns,
            parks: view.parks,
            parked_ns: view.parked_ns,
            busy_ns: view.busy_ns,
            wakes_sent: view.wakes_sent,
            system_calls: calls.load(Ordering::Relaxed),
            operations: view.operations,
            memory_bytes: view.memory_bytes,
            stages: names
                .iter()
                .zip(&view.stages)
                .enumerate()
                .map(|(number, (name, view))| stage(name, view, source.long.of(processor, number)))
                .collect(),
            arcs: arcs(names, &view.arcs),
        });
        Self {
            version: VERSION,
            uptime_ns: source.epoch.elapsed().as_nanos() as u64,
            driver: source.driver.to_string(),
            phase: match source.control.phase() {
                Phase::Running => "running",
                Phase::Draining => "draining",
                Phase::Ending => "ending",
            },
            processors: processors.collect(),
            stages: profile.stages,
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain figures")
    }
}

fn arcs(names: &[&'static str], counts: &[Vec<u64>]) -> Vec<ArcSnapshot> {
    let rows = counts.iter().enumerate().map(|(from, row)| (names.get(from).copied(), row));
    rows.flat_map(|(from, row)| {
        let cells = row.iter().zip(names).filter(|(count, _)| **count > 0);
        cells.map(move |(count, to)| ArcSnapshot { from, to, count: *count })
    })
    .collect()
}
