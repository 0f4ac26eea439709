//! The command line of `phalanx-bench figure8`.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::arguments::number;
use phalanx_kernels::workload::Workload;

/// Measure the 2002 paper's Figure 8: duration of a publish by number of clients.
///
/// A threaded server (the twin) and a staged one share an index, a core and a small protocol. The clients use
/// another core and send the next event when they have an answer. The servers are loaded in turn; figures are
/// medians of the rounds.
///
/// Further staged servers have bounded cohorts: when that many events wait, they are matched before another is
/// read. The paper bounds them to 4, 10 and 20 events.
///
/// JSON: `rows[]` with `server` (`twin`, `staged`, `staged-4` and so on), `clients`, `mean_us`, `p99_us`,
/// `events_per_s`; `twin_over_staged[]` per number of clients (above 1: the unbounded staged server answers
/// sooner); `clients[]`, `workload`, `subscriptions`, `access`, `rounds`, `seed`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Number of filters
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=100_000_000))]
    pub subscriptions: usize,

    /// Workload of the filters
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub workload: Workload,

    /// Choose access predicates by cost, instead of one attribute each
    #[arg(long)]
    pub chosen: bool,

    /// Numbers of concurrent publishers
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          value_parser = number(1..=4096))]
    pub clients: Vec<usize>,

    /// Bounds of cohorts, one staged server each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,10,20,64",
          value_parser = number(1..=4096))]
    pub cohorts: Vec<usize>,

    /// Rounds per server and number of clients
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub rounds: usize,

    /// Length of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000))]
    pub slice: u64,

    /// Seed of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,

    /// Few filters and one round: only checks that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "clients", "cohorts", "rounds", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}
