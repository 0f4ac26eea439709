//! The report, as text and as JSON.

use std::fmt;

use serde::Serialize;

use super::{Access, Cohort, Options, tier};
use crate::stats::Spread;

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One per index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<Build>,
    /// One per index, number of cores and cohort size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Misses, with --misses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<MissRow>,
    /// Instruction set used for checks.
    pub tier: String,
    /// Number of rounds.
    pub rounds: usize,
    /// Seed of filters and events.
    pub seed: u64,
    /// Whether a signal ended the run.
    pub interrupted: bool,
}

/// An index and its construction.
#[derive(Clone, Debug, Serialize)]
pub struct Build {
    /// Workload, W0 to W5.
    pub workload: String,
    /// Number of filters.
    pub subscriptions: usize,
    /// Choice of access predicates.
    pub access: Access,
    /// Filters inserted per second in batches; `None` if all were inserted one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insert_all_per_s: Option<f64>,
    /// Filters inserted per second one by one, into the filled index.
    pub insert_per_s: f64,
    /// The longest of these insertions, in microseconds of processor time.
    pub longest_insert_us: f64,
    /// Nanoseconds to code an event of 32 attributes.
    pub coding_ns: f64,
    /// Sets of attributes under which filters are indexed.
    pub schemas: usize,
    /// Sets with several attributes.
    pub multiple: usize,
    /// Pieces of the index.
    pub pieces: usize,
    /// Conjunctions that are checked one by one.
    pub loose: usize,
}

/// One cohort size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Workload, W0 to W5.
    pub workload: String,
    /// Filters in the index.
    pub subscriptions: usize,
    /// Choice of access predicates.
    pub access: Access,
    /// Distribution of the work: `loop`, `partition`, `twin` or `a-tree`.
    pub form: &'static str,
    /// Number of cores that match concurrently.
    pub cores: usize,
    /// Events matched together; 0 is one at a time.
    pub cohort: Cohort,
    /// Median of the rounds.
    pub events_per_s: f64,
    /// Quartiles of the rounds.
    pub spread: Spread,
    /// Median of the rounds' ratios to cohort 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_per_event: Option<f64>,
    /// On several cores: the median of the rounds' ratios to one core, with the same form and cohort; for a
    /// partition, to the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_one_core: Option<f64>,
    /// Mean number of subscriptions that an event satisfies.
    pub matches_per_event: f64,
    /// Size of the index per subscription.
    pub bytes_per_subscription: f64,
}

/// Simulated misses at one cohort size.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// Workload, W0 to W5.
    pub workload: String,
    /// Filters in the index.
    pub subscriptions: usize,
    /// Events matched together; 0 is one at a time.
    pub cohort: usize,
    /// Misses of a last level of 1 MiB.
    pub l2_misses_per_event: f64,
    /// Misses of a single event over those in a cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_event_over: Option<f64>,
}

impl Report {
    pub(super) fn new(options: &Options) -> Report {
        let (rounds, seed) = (options.rounds, options.seed);
        Report {
            builds: Vec::new(),
            rows: Vec::new(),
            misses: Vec::new(),
            tier: tier(),
            rounds,
            seed,
            interrupted: false,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.misses {
            let MissRow { workload, subscriptions, cohort, l2_misses_per_event, .. } = row;
            let fewer = row
                .per_event_over
                .map_or(String::new(), |fewer| format!(", {fewer:.1} times fewer"));
            writeln!(
                f,
                "{workload}, {subscriptions} filters, cohort {cohort}: {l2_misses_per_event:.1} misses an event{fewer}"
            )?;
        }
        for build in &self.builds {
            let Build { workload, subscriptions, access, pieces, schemas, multiple, .. } = build;
            writeln!(
                f,
                "\n{workload}, {subscriptions} filters, {access:?}: {schemas} schemas ({multiple} multiple), \
                 {pieces} pieces, {} loose\n  inserted{} {:.2} M/s one by one, the longest {:.0} µs; an event is coded in {:.0} ns",
                build.loose,
                build
                    .insert_all_per_s
                    .map_or(String::new(), |rate| format!(" {:.2} M/s in batches,", rate / 1e6)),
                build.insert_per_s / 1e6,
                build.longest_insert_us,
                build.coding_ns,
            )?;
            let rows = self.rows.iter().filter(|row| {
                (&row.workload, row.subscriptions, row.access)
                    == (workload, *subscriptions, *access)
            });
            for (at, row) in rows.enumerate() {
                if at == 0 {
                    writeln!(
                        f,
                        "  {:.1} bytes a subscription, {:.3} matches an event\n\n  cores  form       cohort   events/s  over one at a time  over one core",
                        row.bytes_per_subscription, row.matches_per_event
                    )?;
                }
                let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |n| format!("{n:.2}"));
                let (over, cores) = (ratio(row.over_per_event), ratio(row.over_one_core));
                let line = format!(
                    "  {:>5}  {:<9}  {:>6}  {:>9.0}  {over:>18}  {cores:>13}",
                    row.cores, row.form, row.cohort, row.events_per_s
                );
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        for row in self.rows.iter().filter(|row| row.form == "a-tree") {
            writeln!(
                f,
                "\n{}, {} filters, a-tree: {:.0} events/s, {:.0} bytes a subscription, {:.3} matches an event",
                row.workload,
                row.subscriptions,
                row.events_per_s,
                row.bytes_per_subscription,
                row.matches_per_event
            )?;
        }
        let ended = if self.interrupted { ", interrupted" } else { "" };
        writeln!(f, "\n({} checks, medians of {} rounds{ended})", self.tier, self.rounds)
    }
}
