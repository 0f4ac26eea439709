//! The report, as text and as JSON.

use std::fmt;

use serde::Serialize;

use super::Options;
use crate::stats::Spread;

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One per server and number of clients.
    pub rows: Vec<Row>,
    /// The numbers of clients.
    pub clients: Vec<usize>,
    /// Median of the rounds' ratios of mean response times, per number of clients.
    pub twin_over_staged: Vec<f64>,
    /// Workload, W0 to W5.
    pub workload: String,
    /// Filters in the index.
    pub subscriptions: usize,
    /// How access predicates were chosen: `single` or `chosen`.
    pub access: &'static str,
    /// Number of rounds.
    pub rounds: usize,
    /// Rounds kept although other processes used the machine, per number of clients.
    pub noisy_rounds: Vec<usize>,
    /// Seed of filters and events.
    pub seed: u64,
}

/// A server with a number of clients; medians of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `twin`, `staged`, or `staged-` and the bound of its cohorts.
    pub server: String,
    /// Number of concurrent publishers.
    pub clients: usize,
    /// Mean time from a publish to its answer, in microseconds.
    pub mean_us: f64,
    /// 99th percentile of the same.
    pub p99_us: f64,
    /// Answers per second.
    pub events_per_s: f64,
    /// Quartiles of the rounds.
    pub spread: Spread,
}

impl Report {
    pub(super) fn new(options: &Options) -> Report {
        Report {
            rows: Vec::new(),
            clients: options.clients.clone(),
            twin_over_staged: Vec::new(),
            workload: format!("{:?}", options.workload),
            subscriptions: options.subscriptions,
            access: if options.chosen { "chosen" } else { "single" },
            rounds: options.rounds,
            noisy_rounds: Vec::new(),
            seed: options.seed,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { workload, subscriptions, access, rounds, .. } = self;
        writeln!(
            f,
            "{workload}, {subscriptions} filters, access {access}; medians of {rounds} rounds\n"
        )?;
        writeln!(f, "  clients  server         mean µs    p99 µs   events/s  twin over staged")?;
        for row in &self.rows {
            let Row { server, clients, mean_us, p99_us, events_per_s, .. } = row;
            write!(
                f,
                "  {clients:>7}  {server:<10}  {mean_us:>10.1}{p99_us:>10.1}{events_per_s:>11.0}"
            )?;
            let at = self.clients.iter().position(|other| other == clients);
            match at.filter(|_| server == "staged").map(|at| self.twin_over_staged[at]) {
                Some(ratio) => writeln!(f, "{ratio:>18.2}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
