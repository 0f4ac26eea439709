//! What was found, for people and as JSON.

use std::fmt;

use phalanx::metrics::Interval;
use phalanx::metrics::human::{count, percent};
use serde::Serialize;

use super::Options;
use crate::load;
use crate::web::Machine;

/// What `phalanx bench figure4` reports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One for each stage that ran anything, in wavefront order.
    pub rows: Vec<Row>,
    /// Operations from one stage to another.
    pub arcs: Vec<ArcRow>,
    /// The server's own drawing of it, an SVG.
    pub picture: String,
    /// Connections at a time.
    pub connections: usize,
    /// Answers per second.
    pub requests_per_second: f64,
    /// The driver's, for each answer.
    pub system_calls_per_request: f64,
    /// The share of the time that the processor ran cohorts, from 0 to 1.
    pub utilisation: f64,
    /// Seconds that the profile is of.
    pub seconds: f64,
    /// Where this was measured.
    pub machine: Machine,
    /// Whether it was only to show that it runs: then the figures mean nothing.
    pub quick: bool,
}

/// A stage, in the time that the profile is of.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub stage: String,
    /// Operations started or restarted, per second.
    pub operations_per_second: f64,
    /// Cohorts per second.
    pub cohorts_per_second: f64,
    /// Operations in a cohort, on average.
    pub cohort_mean: f64,
    /// Operations that a cohort found queued, on average.
    pub queue_mean: f64,
    /// The most since the server's start.
    pub queue_most: u64,
    /// Microseconds that an operation waited for its start or restart, on average.
    pub wait_us: f64,
    /// Nanoseconds that one took, up to its end or suspension, on average.
    pub run_ns: f64,
    /// The stage's share of its processor's time, from 0 to 1.
    pub share: f64,
}

/// Operations between stages.
#[derive(Clone, Debug, Serialize)]
pub struct ArcRow {
    /// The stage that invoked or re-enabled them; none for the world outside.
    pub from: Option<String>,
    /// Whose they are.
    pub to: String,
    /// How many.
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
            writeln!(f, "\n  a quick run: it shows that everything runs, and nothing else")?;
        }
        Ok(())
    }
}
