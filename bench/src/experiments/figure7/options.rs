//! The command line of `phalanx-bench figure7`.

use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::runner::RunnerOptions;

/// Measure instructions, misses and cycles per request, after Figure 7 of the papers.
///
/// The 2002 paper's figure shows cycles per instruction and the rate of L2 misses, which follow from them; no paper has
/// figures per request.
///
/// The web server and its threaded twin under the load of SURGE's users, who request pages of one or more files, each page
/// over a new connection, and pause between them. With --connections: small files over keep-alive connections in closed
/// loop. Cachegrind counts instructions and misses of a simulated cache (first level 32 KiB, second 1 MiB, 8 ways each),
/// without the kernel; there a server is some twenty times slower, so pauses are twenty times as long. Cycles are processor
/// time in units of the time-stamp counter, medians of the slices. If the machine has hardware counters, these show the
/// same with the kernel and without. Requires valgrind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of users
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,512,2048", value_parser = number(1..=15_000))]
    pub(crate) users: Vec<usize>,

    /// Numbers of connections in closed loop, instead of users
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = number(1..=500),
          conflicts_with_all = ["users", "think", "files"])]
    pub(crate) connections: Vec<usize>,

    /// Minimum pause between pages, in seconds; the mean is three times as long
    #[arg(long, value_name = "SECONDS", default_value = "0.02", value_parser = seconds)]
    pub(crate) think: Duration,

    /// Files of the users' site
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = number(1..=1_000_000))]
    pub(crate) files: usize,

    /// Slices per server and number of clients
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// A short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice"])]
    pub(crate) quick: bool,
}
