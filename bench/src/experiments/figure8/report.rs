//! The report, as text and as JSON.

use super::Options;
use crate::measure::record::record;
use crate::measure::stats::Spread;

record! {
    /// The results.
    pub struct Report {
        /// One per server and number of clients.
        rows: Vec<Row> | "response time of a publish", 0;
        /// The numbers of clients.
        clients: Vec<usize> => "clients", 0;
        /// Median of the rounds' ratios of mean response times, per number of clients.
        twin_over_staged: Vec<f64> => "twin over staged, by clients", 2;
        /// Workload, W0 to W5.
        workload: String => "workload", 0;
        /// Filters in the index.
        subscriptions: usize => "filters", 0;
        /// How access predicates were chosen: `single` or `chosen`.
        access: &'static str => "access", 0;
        /// Number of rounds.
        rounds: usize => "rounds", 0;
        /// Rounds kept although other processes used the machine, per number of clients.
        noisy_rounds: Vec<usize>;
        /// Seed of filters and events.
        seed: u64;
    }
}

record! {
    /// A server with a number of clients; medians of the rounds.
    pub struct Row {
        /// `twin`, `staged`, or `staged-` and the bound of its cohorts.
        server: String => "server", 0;
        /// Number of concurrent publishers.
        clients: usize => "clients", 0;
        /// Mean time from a publish to its answer, in microseconds.
        mean_us: f64 => "mean µs", 1;
        /// 99th percentile of the same.
        p99_us: f64 => "p99 µs", 1;
        /// Answers per second.
        events_per_s: f64 => "events/s", 0;
        /// Quartiles of the rounds.
        spread: Spread;
    }
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
