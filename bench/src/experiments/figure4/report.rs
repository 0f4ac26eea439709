//! The report, as text and as JSON.

use super::Options;
use crate::measure::record;
use phalanx::metrics::{Interval, StageInterval};

record! {
    /// The report of `phalanx-bench figure4`.
    pub(crate) struct Report, pub(super) fn new(
        options: &Options,
        requests_per_second: f64,
        interval: &Interval,
        picture: String,
    ) where {
        let total = interval.total();
        let stages = interval.stages.iter().zip(&total.stages).filter(|(_, stage)| stage.ran > 0);
        let rows = stages.map(|(name, stage)| Row::new(name.to_string(), stage));
        let name = |stage: usize| interval.stages[stage].to_string();
        let arcs = interval.arcs.iter().map(|arc| ArcRow {
            from: arc.from.map(|(_, stage)| name(stage)),
            to: name(arc.to.1),
            per_second: arc.count as f64 / interval.seconds,
        });
        let calls = total.system_calls as f64 / interval.seconds;
    } {
        /// One row per active stage, in wavefront order.
        rows: Vec<Row> | "stages", 0 = rows.collect::<Vec<_>>();
        /// Operations from one stage to another.
        arcs: Vec<ArcRow> | "operations from stage to stage; those without a source are external", 0
            = arcs.collect::<Vec<_>>();
        /// The server's diagram of the stages, as SVG.
        picture: String;
        connections: usize => "connections", 0 = options.connections;
        /// Responses per second.
        requests_per_second: f64 => "requests/s", 0;
        /// System calls of the driver per answer.
        system_calls_per_request: f64 => "system calls per request", 3 = calls / requests_per_second;
        /// Share of the time in which the processor ran cohorts, from 0 to 1.
        utilisation: f64 => "share of the time in cohorts", 2 = total.utilisation;
        /// Length of the profile in seconds.
        seconds: f64 = interval.seconds;
    }
}

record! {
    /// A stage during the profile.
    pub(crate) struct Row, fn new(stage: String, seen: &StageInterval) {
        /// The stage's name.
        stage: String => "stage", 0;
        /// Operations started or restarted, per second.
        operations_per_second: f64 => "operations/s", 0 = seen.per_second(seen.ran);
        cohorts_per_second: f64 => "cohorts/s", 0 = seen.per_second(seen.cohorts);
        /// Mean number of operations per cohort.
        cohort_mean: f64 => "size", 1 = seen.cohort_mean();
        /// Mean number of queued operations at the start of a cohort.
        queue_mean: f64 => "queue", 1 = seen.queue_length_mean();
        /// Longest queue since the server's start.
        queue_most: u64 => "most", 0 = seen.queue_length_max;
        /// Mean time that an operation waited for its start or resumption, in microseconds.
        wait_us: f64 => "wait µs", 1 = seen.wait_mean_ns() / 1e3;
        /// Mean time of a run up to completion or suspension, in nanoseconds.
        run_ns: f64 => "run ns", 0 = seen.run_mean_ns();
        /// The stage's share of its processor's time, from 0 to 1.
        share: f64 => "share", 2 = seen.utilisation();
    }
}

record! {
    /// Operations between stages.
    pub(crate) struct ArcRow {
        /// The stage that invoked or resumed them; `None` for external events.
        from: Option<String> => "from", 0;
        /// The stage of the operations.
        to: String => "to", 0;
        /// Operations per second.
        per_second: f64 => "per second", 0;
    }
}
