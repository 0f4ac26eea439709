//! The command line of `phalanx-bench figure8`.

use clap::Args;
use clap::builder::{ArgPredicate, RangedU64ValueParser};

use super::arm::Arm;
use crate::arguments::number;
use phalanx_kernels::workload::Workload;

/// Measure the 2002 paper's Figure 8: duration of a publish by number of clients, and its cost.
///
/// A threaded server (the twin) and a staged one share an index, cores and a small protocol. The clients use
/// other cores, if there are any, and send the next event when they have an answer. The servers are loaded in turn;
/// figures are medians of the rounds.
///
/// Further staged servers have bounded cohorts: when that many events wait, they are matched before another is
/// read. The paper bounds them to 4, 10 and 20 events. With several processors, in one more staged server (`divided`)
/// each processor owns a part of the subscriptions, as in the paper's server. It matches all events with it in cohorts,
/// and the answers are summed; the paper does not say how events and answers travel.
///
/// With --misses, cycles per instruction as in the lower part of the figure, as means of two phases and not over time, and
/// misses, which the paper gives in its text: instructions and misses of simulated caches (first level 32 KiB,
/// second 1 MiB, 8 ways each) by cachegrind, and cycles of the time-stamp counter, outside the kernel, with 16 clients;
/// of the construction of the index, for a filter, and of an event. Requires valgrind, under which the construction takes
/// minutes.
///
/// With --matching-misses, the same for an event only, with any numbers of clients. The index is built before callgrind
/// begins to simulate the caches, so one of 1,000,000 filters takes two minutes. Requires valgrind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of filters
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=100_000_000))]
    pub(crate) subscriptions: usize,

    /// Workload of the filters
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub(crate) workload: Workload,

    /// Choose access predicates by cost, instead of one attribute each
    #[arg(long)]
    pub(crate) chosen: bool,

    /// Processors of each server; the twin has as many cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=64))]
    pub(crate) processors: usize,

    /// Numbers of concurrent publishers; 16 with --matching-misses
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          default_value_if("matching_misses", ArgPredicate::IsPresent, "16"), value_parser = number(1..=4096))]
    pub(crate) clients: Vec<usize>,

    /// Bounds of cohorts, one staged server each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,10,20,64",
          value_parser = number(1..=4096))]
    pub(crate) cohorts: Vec<usize>,

    /// Rounds per server and number of clients
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000))]
    pub(crate) slice: u64,

    /// Seed of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,

    /// Measure instructions, misses and cycles instead
    #[arg(long, conflicts_with_all = ["clients", "cohorts", "rounds"])]
    pub(crate) misses: bool,

    /// Measure them for events only, with an index of any size
    #[arg(long, conflicts_with_all = ["misses", "cohorts", "rounds"])]
    pub(crate) matching_misses: bool,

    /// Size of the simulated second-level cache in MiB, a power of two
    #[arg(long, value_name = "MIB", default_value_t = 1, requires = "matching_misses", value_parser = power_of_two)]
    pub(crate) l2: usize,

    /// Few filters and one round: only checks that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "clients", "cohorts", "rounds", "slice"])]
    pub(crate) quick: bool,

    /// Only run this server
    #[arg(long, hide = true, value_name = "SERVER")]
    pub(crate) serve: Option<Arm>,
}

impl Options {
    /// The servers, the twin first, then the staged one.
    pub(super) fn arms(&self) -> Vec<Arm> {
        let divided = (self.processors > 1).then_some(Arm::Divided);
        let bounds = self.cohorts.iter().filter(|_| !self.misses && !self.matching_misses);
        let bounded = bounds.map(|bound| Arm::Staged(Some(*bound)));
        [Arm::Twin, Arm::Staged(None)].into_iter().chain(divided).chain(bounded).collect()
    }
}

/// Parses a power of two up to 64.
fn power_of_two(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number: &usize| number.is_power_of_two());
    number.filter(|number| *number <= 64).ok_or_else(|| "a power of two up to 64".to_owned())
}
