//! The command line of `phalanx-bench figure7`.

use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::runner::RunnerOptions;

/// Measure instructions, misses and cycles per request, as in the 2002 paper's Figure 7.
///
/// Small files over keep-alive connections in closed loop, from the web server and its threaded twin. Cachegrind
/// counts instructions and misses of a simulated cache (first level 32 KiB, second 1 MiB, 8 ways each), without
/// the kernel. Cycles are processor time in units of the time-stamp counter, medians of the slices. Requires
/// valgrind.
///
/// JSON: `rows[]` with `server`, `connections`, `instructions`, `i1_misses`, `l2_misses`, `cycles` (including the
/// kernel), `own_cycles` (without), `own_cycles_per_instruction`, per request; `instructions_over_twin`,
/// `l2_misses_over_twin`, `cycles_over_twin` with the most connections; `cycles_per_us`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Numbers of connections
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,256", value_parser = number(1..=500))]
    pub connections: Vec<usize>,

    /// Slices per server and number of connections
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// A short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}
