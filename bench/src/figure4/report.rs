//! The report, as text and as JSON.

use std::fmt;

use phalanx::metrics::Interval;
use phalanx::metrics::human::{count, percent};
use serde::Serialize;

use super::Options;
use crate::load;
use crate::machine::Machine;

/// The report of `phalanx-bench figure4`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One row per active stage, in wavefront order.
    pub rows: Vec<Row>,
    /// Operations from one stage to another.
    pub arcs: Vec<ArcRow>,
    /// The server's diagram of the stages, as SVG.
    pub picture: String,
    /// Number of connections.
    pub connections: usize,
    /// Answers per second.
    pub requests_per_second: f64,
    /// System calls of the driver per answer.
    pub system_calls_per_request: f64,
    /// Share of the time in which the processor ran cohorts, from 0 to 1.
    pub utilisation: f64,
    /// Length of the profile in seconds.
    pub seconds: f64,
    /// The machine and cores of the measurement.
    pub machine: Machine,
    /// Whether this was a quick run, whose figures are meaningless.
    pub quick: bool,
}

/// A stage during the profile.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The stage's name.
    pub stage: String,
    /// Operations started or restarted, per second.
    pub operations_per_second: f64,
    /// Cohorts per second.
    pub cohorts_per_second: f64,
    /// Mean number of operations per cohort.
    pub cohort_mean: f64,
    /// Mean number of queued operations at the start of a cohort.
    pub queue_mean: f64,
    /// Longest queue since the server's start.
    pub queue_most: u64,
    /// Mean time that an operation waited for its start or resumption, in microseconds.
    pub wait_us: f64,
    /// Mean time of a run up to completion or suspension, in nanoseconds.
    pub run_ns: f64,
    /// The stage's share of its processor's time, from 0 to 1.
    pub share: f64,
}

/// Operations between stages.
#[derive(Clone, Debug, Serialize)]
pub struct ArcRow {
    /// The stage that invoked or resumed them; `None` for external events.
    pub from: Option<String>,
    /// The stage of the operations.
    pub to: String,
    /// Operations per second.
    pub per_second: f64,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        load: &load::Report,
        interval: &Interval,
        picture: String,
        machine: Machine,
    ) -> Self {
        let total = interval.total();
        let stages = interval.stages.iter().zip(&total.stages).filter(|(_, stage)| stage.ran > 0);
        let rows = stages.map(|(name, stage)| Row {
            stage: name.to_string(),
            operations_per_second: stage.per_second(stage.ran),
            cohorts_per_second: stage.per_second(stage.cohorts),
            cohort_mean: stage.cohort_mean(),
            queue_mean: stage.queue_length_mean(),
            queue_most: stage.queue_length_max,
            wait_us: stage.wait_mean_ns() / 1e3,
            run_ns: stage.run_mean_ns(),
            share: stage.utilisation(),
        });
        let name = |stage: usize| interval.stages[stage].to_string();
        let arcs = interval.arcs.iter().map(|arc| ArcRow {
            from: arc.from.map(|(_, stage)| name(stage)),
            to: name(arc.to.1),
            per_second: arc.count as f64 / interval.seconds,
        });
        let calls = total.system_calls as f64 / interval.seconds;
        Self {
            rows: rows.collect(),
            arcs: arcs.collect(),
            picture,
            connections: options.connections,
            requests_per_second: load.requests_per_second,
            system_calls_per_request: calls / load.requests_per_second,
            utilisation: total.utilisation,
            seconds: interval.seconds,
            machine,
            quick: options.quick,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} connections, {}/s; {:.3} system calls a request, {} of the time in cohorts\n",
            self.connections,
            count(self.requests_per_second),
            self.system_calls_per_request,
            percent(self.utilisation)
        )?;
        writeln!(
            f,
            "  {:<14}{:>12}{:>11}{:>9}{:>9}{:>9}{:>10}{:>9}{:>8}",
            "stage",
            "operations/s",
            "cohorts/s",
            "size",
            "queue",
            "most",
            "wait µs",
            "run ns",
            "share"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "  {:<14}{:>12}{:>11}{:>9.1}{:>9.1}{:>9}{:>10.1}{:>9.0}{:>8}",
                row.stage,
                count(row.operations_per_second),
                count(row.cohorts_per_second),
                row.cohort_mean,
                row.queue_mean,
                row.queue_most,
                row.wait_us,
                row.run_ns,
                percent(row.share)
            )?;
        }
        writeln!(f)?;
        for arc in &self.arcs {
            let from = arc.from.as_deref().unwrap_or("(outside)");
            writeln!(f, "  {from:<14} → {:<14}{:>12}/s", arc.to, count(arc.per_second))?;
        }
        if self.quick {
            writeln!(f, "\n  quick run: the figures are meaningless")?;
        }
        Ok(())
    }
}
