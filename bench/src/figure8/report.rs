//! What was found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use super::Options;
use crate::stats::Spread;

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One for each server and number of clients.
    pub rows: Vec<Row>,
    /// The numbers of clients.
    pub clients: Vec<usize>,
    /// For each of them: the median of the rounds' ratios of mean response times.
    pub twin_over_staged: Vec<f64>,
    /// W0 to W5.
    pub workload: String,
    /// Filters in the index.
    pub subscriptions: usize,
    /// How access predicates were chosen: `single` or `chosen`.
    pub access: &'static str,
    /// Medians are over so many.
    pub rounds: usize,
    /// Of these, for each number of clients, kept although others used the machine.
    pub noisy_rounds: Vec<usize>,
    /// Of filters and events.
    pub seed: u64,
}

/// A server under so many clients; medians of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `twin`, `staged`, or `staged-` and the bound of its cohorts.
    pub server: String,
    /// That published at the same time.
    pub clients: usize,
    /// Microseconds from a publish to its answer.
    pub mean_us: f64,
    /// The same, of the slowest hundredth.
    pub p99_us: f64,
    /// Answers a second.
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
