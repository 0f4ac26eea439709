//! `phalanx-bench concurrency`: the cost of many concurrent requests, and how much of it a budget and pools save.
//! After Figures 1, 7(b) and 7(c) of the TUX paper, with synthetic requests and with real servers.
//!
//! Read `request` (the work of a request), `arms` (orders and allocators), `times`, `misses` (under cachegrind) and
//! `servers` (the real web server compared with its variants and with others).

mod arms;
mod measure;
mod misses;
mod report;
mod request;
mod servers;
mod times;

use clap::Args;

use crate::arguments::{kib, number};
use crate::error::Error;
use crate::runner::RunnerOptions;
use crate::system::{install_signal_handlers, is_interrupted};

pub(crate) use arms::{ARMS, Allocator, Order, Server, server};
pub(crate) use measure::second_level;
pub(crate) use misses::walk;
use report::Report;

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
/// request of the web server, its threaded twin and nginx with the same numbers of connections, and of the web server
/// with and without a budget and its pool of buffers; and under valgrind, for all of these, the misses per request of
/// caches of 32 KiB (first level) and 1 MiB (second level).
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

    /// Skip the synthetic requests: only the real servers
    #[arg(long, conflicts_with = "no_servers")]
    pub(crate) no_synthetic: bool,

    /// Each request to a real server opens a connection
    #[arg(long, conflicts_with = "no_servers")]
    pub(crate) no_keep_alive: bool,

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

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let (timed, simulated) = (!options.no_times, !options.without_misses());
    let (synthetic, served) = (!options.no_synthetic, !options.no_servers);
    let rows = part(timed && synthetic, || times::arms(options).map_err(Error::Io))?;
    let waits = part(timed && synthetic, || times::waits(options).map_err(Error::Io))?;
    let elections = part(timed && synthetic, || times::elections(options).map_err(Error::Io))?;
    let web = part(timed && served, || servers::times(options))?;
    let misses = part(simulated && synthetic, || misses::run(options))?;
    let web_misses = part(simulated && served, || servers::misses(options))?;
    if is_interrupted() && rows.is_empty() && misses.is_empty() && web_misses.is_empty() {
        return Err(Error::Interrupted);
    }
    Ok(Report::new(options, rows, waits, elections, misses, web, web_misses))
}

/// Measures a part if it is wanted. After an interruption it is empty.
fn part<T>(wanted: bool, measure: impl FnOnce() -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    if !wanted || is_interrupted() {
        return Ok(Vec::new());
    }
    measure().or_else(|error| if is_interrupted() { Ok(Vec::new()) } else { Err(error) })
}
