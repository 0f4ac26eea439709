//! The command line of `phalanx-bench match`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use phalanx_kernels::workload::Workload;
use serde::Serialize;

use super::Cohort;
use crate::arguments::number;

/// Choice of access predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Access {
    /// One attribute per filter
    Single,
    /// By cost, several attributes at once; left out where the result is the same
    Chosen,
    /// By cost, with filters inserted one by one and an index that reorganizes itself as it grows
    Grown,
    /// The peer's own choice
    #[value(skip)]
    Peer,
}

/// Measure the matcher: events per second against many filters, one at a time and in cohorts.
///
/// Filters and events are generated from a seed; an event has 32 attributes. It is coded beforehand, and the
/// time for that is reported separately (`coding_ns`). Each index is measured with all cohort sizes in turn, on
/// one core; figures are medians of the rounds. Cohort 0 is a plain loop over events, with which every other
/// size is compared. `form` is the distribution of the work: `loop` on each core with separate events,
/// `partition` with the pieces of the index divided among the cores, `twin` by a pool of threads that take one
/// event at a time (a counterpart of the threaded server of the 2002 paper, §5.2).
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of filters
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100000,1000000",
          value_parser = number(1..=100_000_000))]
    pub(crate) subscriptions: Vec<usize>,

    /// Workloads of the filters
    #[arg(
        long,
        value_name = "W,…",
        value_delimiter = ',',
        ignore_case = true,
        default_value = "W0,W1,W2,W3,W4,W5"
    )]
    pub(crate) workload: Vec<Workload>,

    /// Events matched together; 0 is one at a time without a queue, auto is chosen by the queues at the pieces
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "0,1,4,10,20,64,256,1024,4096,auto"
    )]
    pub(crate) cohort: Vec<Cohort>,

    /// Numbers of cores that match concurrently
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = number(1..=64))]
    pub(crate) cores: Vec<usize>,

    /// Rounds per cohort size
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    pub(crate) slice: u64,

    /// Seed of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,

    /// Count misses of a second-level cache of 1 MiB under valgrind instead, one event at a time and in cohorts
    /// of 1024, with one access attribute. Takes minutes
    #[arg(long)]
    pub(crate) misses: bool,

    /// Choice of access predicates
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        value_enum,
        default_value = "single,chosen"
    )]
    pub(crate) access: Vec<Access>,

    /// Compare with the crate a-tree, one event at a time: the program built by `cargo build --release` in
    /// bench/peers/a-tree. Its insertions slow down with their number; 100,000 take some ten seconds
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) a_tree: Option<PathBuf>,

    /// Few filters and one round: only checks that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "rounds", "slice"])]
    pub(crate) quick: bool,

    /// Only match this many events in cohorts of the first size, for a simulator to observe
    #[arg(long, hide = true, value_name = "EVENTS")]
    pub(crate) walk: Option<usize>,
}
