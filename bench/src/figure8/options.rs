//! The command line of `phalanx bench figure8`.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::matching::Workload;

/// Measure the 2002 paper's Figure 8: how long a publish takes against how many clients publish.
///
/// A threaded server (the twin) and a staged one share an index, a core and a tiny protocol; the clients have
/// another core and ask again as soon as they are answered. The servers are loaded in turn; figures are medians
/// of the rounds.
///
/// As in the paper, staged servers whose cohorts are bounded stand beside the one whose are not: where so many events wait
/// to be matched, they are before another is taken in.
///
/// JSON: `rows[]` with `server` (`twin`, `staged`, `staged-4` and so on), `clients`, `mean_us`, `p99_us`, `events_per_s`;
/// `twin_over_staged[]` for each number of clients (above 1: the staged one without a bound answers sooner); `clients[]`,
/// `workload`, `subscriptions`, `access`, `rounds`, `seed`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many filters
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000_000))]
    pub subscriptions: usize,

    /// What filters ask for
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub workload: Workload,

    /// Access predicates chosen by cost, in place of one attribute each as in the paper
    #[arg(long)]
    pub chosen: bool,

    /// Clients that publish at the same time
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub clients: Vec<usize>,

    /// Bounds of cohorts, a staged server each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,10,20,64",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub cohorts: Vec<usize>,

    /// How many times each server is loaded with each number of clients
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,

    /// Milliseconds of load each time
    #[arg(long, value_name = "MS", default_value_t = 300,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000))]
    pub slice: u64,

    /// Of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,

    /// Few filters and one round: only shows that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "clients", "cohorts", "rounds", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}
