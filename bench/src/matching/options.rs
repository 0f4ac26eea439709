//! The command line of `phalanx bench match`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Cohort, Workload};

/// How access predicates come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// One attribute for each filter
    Single,
    /// By cost, several attributes at once; left out where that comes to the same
    Chosen,
    /// The same, but the filters come one by one, and the index arranges itself anew as it grows
    Grown,
    /// What another matcher does
    #[value(skip)]
    Peer,
}

/// Measure the matcher: events a second against many filters, one at a time and in cohorts.
///
/// Filters and events come from a seed; an event has 32 attributes. It is coded beforehand, and what that
/// takes is told apart (`coding_ns`). Each index is measured with all cohort sizes in turn, on one core;
/// figures are medians of the rounds. Cohort 0 is the plain loop over events, which every other size is
/// compared with. `form` says who matches what: `loop` on each core with events of its own, `partition` with
/// the pieces of the index divided among the cores, `twin` by a pool of threads that take one event at a time
/// (the threaded server of the 2002 paper, §5.2).
///
/// JSON: `builds[]` with `workload`, `subscriptions`, `access` (`single`: one attribute for each access
/// predicate; `chosen`: by cost; `grown`: the same, as it grew), `insert_all_per_s`, `insert_per_s` (one by one),
/// `longest_insert_us` (of these), `coding_ns` (for an event),
/// `schemas`, `multiple` (of several attributes), `pieces`, `loose`; `rows[]` with `workload`,
/// `subscriptions`, `access`, `form`, `cores`, `cohort`, `events_per_s`, `over_per_event` and `over_one_core` (medians of the
/// rounds' ratios), `matches_per_event`, `bytes_per_subscription`; `tier`, `rounds`, `seed`.
/// With --misses: `misses[]` with `workload`, `subscriptions`, `cohort`, `l2_misses_per_event`, `per_event_over`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many filters
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100000,1000000",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000_000))]
    pub subscriptions: Vec<usize>,

    /// What filters ask for
    #[arg(
        long,
        value_name = "W,…",
        value_delimiter = ',',
        ignore_case = true,
        default_value = "W0,W1,W2,W3,W4,W5"
    )]
    pub workload: Vec<Workload>,

    /// Events matched together; 0 is one at a time without any queue, auto what queues at the pieces choose
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "0,1,4,10,20,64,256,1024,4096,auto"
    )]
    pub cohort: Vec<Cohort>,

    /// Cores that match at the same time, each with events of its own
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub cores: Vec<usize>,

    /// How many times every cohort size is measured
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,

    /// Milliseconds for each cohort size in a round
    #[arg(long, value_name = "MS", default_value_t = 60,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    pub slice: u64,

    /// Of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,

    /// Count misses of a second-level cache of 1 MiB under valgrind instead, one at a time and in cohorts of
    /// 1024; with one access attribute. Minutes
    #[arg(long)]
    pub misses: bool,

    /// How access predicates come about
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        value_enum,
        default_value = "single,chosen"
    )]
    pub access: Vec<Access>,

    /// Measure the crate a-tree beside it, one event at a time: the program that `cargo build --release` in
    /// bench/peers/a-tree makes. Its insertions become slower with each; 100,000 take it some ten seconds
    #[arg(long, value_name = "PROGRAM")]
    pub a_tree: Option<PathBuf>,

    /// Few filters and one round: only shows that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "rounds", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,

    /// Only match so many events in cohorts of the first size, for a simulator to watch
    #[arg(long, hide = true, value_name = "EVENTS")]
    pub walk: Option<usize>,
}
