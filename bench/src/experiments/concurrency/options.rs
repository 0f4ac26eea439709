//! The command line of `phalanx-bench concurrency`.

use clap::Args;

use super::{Allocator, Order};
use crate::arguments::{kib, number};
use crate::runner::RunnerOptions;

/// Measure the cost of many concurrent requests, and how much of it a budget and pools save.
///
/// After Figures 1, 7(b) and 7(c) of the TUX paper. A request passes eight stages of generated code and
/// needs 10 KB in seven objects, allocated at different stages and freed at the end. It runs in an event server
/// that advances the requests in flight by one stage each, in the order of a list (`list`, without TUX's priorities) or
/// at random (`events`), in cohorts of all queued requests, and in cohorts with a budget of the size of this machine's
/// second-level cache. Each runs with the general allocator and with the runtime's pools. All take turns in one
/// process, bound to one core; ratios are medians over the rounds.
///
/// Further measurements follow: requests that all wait for 1 and for 5 ms half-way, as for a disk, with a
/// budget and without; requests whose memory is checked at every stage, and at the entry; the processor time per
/// request of the web server, its threaded twin and nginx with the same numbers of connections; and under valgrind, for
/// all of these, the misses per request of caches of 32 KiB (first level) and 1 MiB (second level).
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Requests in flight
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4,16,64,256,1024,4096,10000",
          value_parser = number(1..=50_000))]
    pub(crate) in_flight: Vec<usize>,

    /// KiB of code in each of the eight stages: 1, 2, 4, 8, 16 or 32
    #[arg(long, value_name = "N", default_value = "16", value_parser = kib())]
    pub(crate) kib: u64,

    /// The budget's second-level cache, in bytes [default: this machine's; 1 MiB under valgrind]
    #[arg(long, value_name = "BYTES", value_parser = number(1..=1 << 30))]
    pub(crate) cache: Option<usize>,

    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Skip the measurements of time: only those under valgrind, which other programs do not disturb
    #[arg(long, conflicts_with_all = ["no_misses", "quick"])]
    pub(crate) no_times: bool,

    /// Skip the measurements under valgrind
    #[arg(long)]
    pub(crate) no_misses: bool,

    /// Skip the real servers
    #[arg(long)]
    pub(crate) no_servers: bool,

    /// Where the servers run
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short round, and nothing under valgrind: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "in_flight"])]
    pub(crate) quick: bool,

    /// Only serve this many requests, for a simulator to observe
    #[arg(long, hide = true, value_name = "REQUESTS", requires_all = ["order", "allocator"])]
    pub(crate) walk: Option<usize>,

    /// Order of --walk
    #[arg(long, hide = true)]
    pub(crate) order: Option<Order>,

    /// Allocator of --walk
    #[arg(long, hide = true)]
    pub(crate) allocator: Option<Allocator>,
}

impl Options {
    /// Requests in flight, rounds, and the minimum number of requests of a measurement.
    pub(crate) fn plan(&self) -> (Vec<usize>, usize, usize) {
        match self.quick {
            true => (vec![64, 512], 1, 256),
            false => (self.in_flight.clone(), self.rounds, 10_000),
        }
    }

    /// Whether to skip the measurements under valgrind.
    pub(crate) fn without_misses(&self) -> bool {
        self.no_misses || self.quick
    }
}
