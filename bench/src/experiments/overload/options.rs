//! The command line of `phalanx-bench overload`.

use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::runner::RunnerOptions;

/// Offered loads as shares of the capacity.
const LOADS: [f64; 8] = [0.5, 0.7, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0];

/// Measure the web server's goodput under overload.
///
/// The capacity of a server is its rate of answers while offered its closed-loop rate (measured with few
/// connections). It is measured before and after every slice. In the slice, requests are offered in open loop at
/// half to three times the capacity, over enough connections that the excess reaches the server. Goodput is
/// successful answers within 50 ms of the intended start. The files (64 MiB in total) fit in the kernel's page
/// cache but not in the server's own, so that an answer costs clearly more than a rejection; the report states
/// both costs. Where a rejection costs nearly as much as an answer, as with --small, no server can keep its
/// goodput by rejecting. The servers are visited in turn; figures are medians of the slices.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = number(1..=20_000))]
    pub(crate) connections: usize,

    /// Slices per server and load
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Offered loads, as multiples of the capacity
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_values_t = LOADS, value_parser = load)]
    pub(crate) loads: Vec<f64>,

    /// Size of each file in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512 * 1024, value_parser = number(1..=16 << 20))]
    pub(crate) file_bytes: usize,

    /// --max-queue-delay of Phalanx, in milliseconds [default: 4, a tenth of the objective; with --small the
    /// server's default, 15]
    #[arg(long, value_name = "MILLISECONDS")]
    pub(crate) max_queue_delay: Option<u64>,

    /// Serve the small files of `phalanx-bench web`, which fit in the server's cache
    #[arg(long, conflicts_with = "file_bytes")]
    pub(crate) small: bool,

    /// Only these servers: phalanx, twin, nginx
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each at 0.5 and 2: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice", "loads"])]
    pub(crate) quick: bool,
}

impl Options {
    /// Loads, number of slices, and their length.
    pub(crate) fn plan(&self) -> (Vec<f64>, usize, Duration) {
        match self.quick {
            true => (vec![0.5, 2.0], 1, Duration::from_millis(400)),
            false => (self.loads.clone(), self.slices, self.slice),
        }
    }

    /// --max-queue-delay of Phalanx in milliseconds.
    pub(crate) fn max_queue_delay(&self) -> u64 {
        // A thousand clients of small files normally wait for each other longer than four.
        self.max_queue_delay.unwrap_or(if self.small { 15 } else { 4 })
    }

    /// Whether to measure the server of this name.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if (0.01..=10.0).contains(&load) => Ok(load),
        _ => Err("from 0.01 to 10".to_owned()),
    }
}
