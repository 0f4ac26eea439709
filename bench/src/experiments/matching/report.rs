//! The report, as text and as JSON.

use phalanx_kernels::workload::Workload;
use phalanx_matcher::Snapshot;

use super::{Access, Built, Cohort, Options, tier};
use crate::measure::{Spread, record};

record! {
    /// The results.
    pub(crate) struct Report, pub(super) fn new(options: &Options) {
        /// One per index.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        builds: Vec<Build> | "indexes", 0 = Vec::new();
        /// One per index, number of cores and cohort size.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rows: Vec<Row> | "events against an index", 3 = Vec::new();
        /// Misses, with --misses.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        misses: Vec<MissRow> | "simulated second-level misses (1 MiB) per event", 0 = Vec::new();
        /// Instruction set used for checks.
        tier: String => "checks", 0 = tier();
        /// Number of rounds; after an interruption, the fewest of a row.
        rounds: usize => "rounds", 0 = options.rounds;
        /// Seed of filters and events.
        seed: u64 = options.seed;
        interrupted: bool = false;
    }
}

record! {
    /// An index and its construction.
    pub(crate) struct Build, pub(super) fn new(
        workload: Workload,
        access: Access,
        built: &Built,
        snapshot: &Snapshot,
        coding_ns: f64,
    ) where {
        let shape = snapshot.shape();
    } {
        /// Workload, W0 to W5.
        workload: String => "workload", 0 = format!("{workload:?}");
        subscriptions: usize => "filters", 0 = built.index.len();
        /// Choice of access predicates.
        access: Access => "access", 0;
        /// Filters inserted per second in batches; `None` if all were inserted one by one.
        #[serde(skip_serializing_if = "Option::is_none")]
        insert_all_per_s: Option<f64> => "batched/s", 0 = built.insert_all_per_s;
        /// Filters inserted per second one by one, into the filled index.
        insert_per_s: f64 => "one by one/s", 0 = built.insert_per_s;
        /// The longest of these insertions, in microseconds of processor time.
        longest_insert_us: f64 => "longest µs", 0 = built.longest.as_secs_f64() * 1e6;
        /// Nanoseconds to code an event of 32 attributes.
        coding_ns: f64 => "coding ns", 0;
        /// Sets of attributes under which filters are indexed.
        schemas: usize => "schemas", 0 = shape.schemas;
        /// Sets with several attributes.
        multiple: usize => "multiple", 0 = shape.multiple;
        /// Pieces of the index.
        pieces: usize => "pieces", 0 = shape.pieces;
        /// Conjunctions that are checked one by one.
        loose: usize => "loose", 0 = shape.loose;
    }
}

record! {
    /// One cohort size.
    pub(crate) struct Row {
        /// Workload, W0 to W5.
        workload: String => "workload", 0;
        /// Filters in the index.
        subscriptions: usize => "filters", 0;
        /// Choice of access predicates.
        access: Access => "access", 0;
        /// Distribution of the work: `loop`, `partition`, `twin` or `a-tree`.
        form: &'static str => "form", 0;
        /// Number of cores that match concurrently.
        cores: usize => "cores", 0;
        /// Events matched together; 0 is one at a time.
        cohort: Cohort => "cohort", 0;
        rounds: usize => "rounds", 0;
        /// Median of the rounds.
        events_per_s: f64 => "events/s", 0;
        spread: Spread;
        /// Median of the rounds' ratios to cohort 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        over_per_event: Option<f64> => "over one at a time", 2;
        /// On several cores: the median of the rounds' ratios to one core, with the same form and cohort; for a
        /// partition, to the loop.
        #[serde(skip_serializing_if = "Option::is_none")]
        over_one_core: Option<f64> => "over one core", 2;
        /// Mean number of subscriptions that an event satisfies.
        matches_per_event: f64 => "matches an event", 3;
        /// Size of the index per subscription.
        bytes_per_subscription: f64 => "bytes a filter", 1;
    }
}

record! {
    /// Simulated misses at one cohort size.
    pub(crate) struct MissRow {
        /// Workload, W0 to W5.
        workload: String => "workload", 0;
        /// Filters in the index.
        subscriptions: usize => "filters", 0;
        /// Events matched together; 0 is one at a time.
        cohort: usize => "cohort", 0;
        /// Misses of a last level of 1 MiB.
        l2_misses_per_event: f64 => "misses", 1;
        /// Misses of a single event over those in a cohort.
        #[serde(skip_serializing_if = "Option::is_none")]
        per_event_over: Option<f64> => "fewer", 1;
    }
}
