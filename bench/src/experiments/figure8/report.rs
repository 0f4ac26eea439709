//! The report, as text and as JSON.

use super::Options;
use super::clients::Found;
use super::cost::Cost;
use crate::measure::{Partial, Quartiles, Rounds as _, Spread, record};

record! {
    /// The results.
    pub(crate) struct Report, pub(super) fn new(options: &Options) {
        /// One per server and number of clients.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rows: Vec<Row> | "response time of a publish", 0 = Vec::new();
        #[serde(skip_serializing_if = "Vec::is_empty")]
        clients: Vec<usize> => "clients", 0 = Vec::new();
        /// Median of the rounds' ratios of mean response times, per number of clients.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        twin_over_staged: Vec<f64> => "twin over staged, by clients", 2 = Vec::new();
        /// The same for the staged server over the one with divided subscriptions, on several processors.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        staged_over_divided: Vec<f64> => "staged over divided, by clients", 2 = Vec::new();
        /// Cost of each server, with --misses and --matching-misses.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        costs: Vec<Cost> | "outside of the kernel: a filter inserted (construction), an event (matching); simulated caches", 1
            = Vec::new();
        /// Size of the simulated second-level cache in MiB, with --misses and --matching-misses.
        l2_mib: Option<usize> => "MiB of the simulated L2", 0
            = (options.misses || options.matching_misses).then_some(options.l2);
        /// Time to match an event without a server, one after the other, in microseconds.
        alone_us: Option<f64> => "µs to match an event, without a server", 1 = None;
        /// Mean number of subscriptions that an event satisfies.
        matches_per_event: f64 => "matches of an event", 1 = 0.0;
        /// Size of the index in MiB.
        index_mib: f64 => "MiB of the index", 1 = 0.0;
        /// Workload, W0 to W5.
        workload: String => "workload", 0 = format!("{:?}", options.workload);
        /// Filters in the index.
        subscriptions: usize => "filters", 0 = options.subscriptions;
        /// How access predicates were chosen: `single` or `chosen`.
        access: &'static str => "access", 0 = if options.chosen { "chosen" } else { "single" };
        /// Processors of each server.
        processors: usize => "processors", 0 = options.processors;
        rounds: usize => "rounds", 0 = options.rounds;
        /// Rounds kept although other processes used the machine, per number of clients.
        noisy_rounds: Vec<usize> = Vec::new();
        /// Seed of filters and events.
        seed: u64 = options.seed;
        partial: Option<Partial> = None;
    }
}

record! {
    /// A server with a number of clients; medians of the rounds.
    pub(crate) struct Row, pub(super) fn new(server: &str, clients: usize, found: &[&Found]) {
        /// `twin`, `staged`, `divided`, or `staged-` and the bound of its cohorts.
        server: String => "server", 0 = server.to_owned();
        /// Number of concurrent publishers.
        clients: usize => "clients", 0;
        /// Mean time from a publish to its answer, in microseconds.
        mean_us: f64 => "mean µs", 1 = found.each(|row| row.mean_us());
        /// 99th percentile of the same.
        p99_us: f64 => "p99 µs", 1 = found.median(|row| row.p99_us());
        /// Answers per second.
        events_per_s: f64 => "events/s", 0 = found.median(|row| row.rate());
        spread: Spread = Quartiles;
    }
}
