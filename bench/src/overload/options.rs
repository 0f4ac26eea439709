//! What to measure: the command line of `phalanx bench overload`.

use std::time::Duration;

use clap::Args;

use crate::load::seconds;
use crate::web::runner::RunnerOptions;

/// Shares of the capacity that are offered.
const LOADS: [f64; 8] = [0.5, 0.7, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0];

/// Measure what is left of the web server when it is asked for more than it can do.
///
/// Each server's capacity is what it answers while it is offered as much as it answers in closed loop (there
/// with few connections), measured before and after every slice; between, requests are offered in open loop,
/// from half of that to three times as many, all over enough connections that the excess reaches the server. Goodput is successful answers within 50 ms of the intended start. The files (64 MiB in
/// all) fit in the kernel's page cache but not in the server's own, so that an answer costs
/// clearly more than a refusal; the report says how much of each. Where a refusal costs nearly as much
/// as an answer, as with --small, no server can keep its goodput by refusing. The servers are
/// visited in turn; medians of the slices count.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=20_000))]
    pub connections: usize,

    /// Slices for each server and load
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub slice: Duration,

    /// What to offer, in capacities
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_values_t = LOADS, value_parser = load)]
    pub loads: Vec<f64>,

    /// Bytes of each file
    #[arg(long, value_name = "BYTES", default_value_t = 512 * 1024,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=16 << 20))]
    pub file_bytes: usize,

    /// Phalanx's --max-queue-delay, in milliseconds [default: 4, a tenth of the objective; with --small the server's own, 15]
    #[arg(long, value_name = "MILLISECONDS")]
    pub max_queue_delay: Option<u64>,

    /// The small files of `bench web`, all in the server's cache
    #[arg(long, conflicts_with = "file_bytes")]
    pub small: bool,

    /// Only these servers: phalanx, twin, nginx
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Where
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// One short slice each at 0.5 and 2: only shows that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice", "loads"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// What is to be measured: loads, slices, and their length.
    pub(crate) fn plan(&self) -> (Vec<f64>, usize, Duration) {
        match self.quick {
            true => (vec![0.5, 2.0], 1, Duration::from_millis(400)),
            false => (self.loads.clone(), self.slices, self.slice),
        }
    }

    /// Milliseconds that work may wait in Phalanx before it refuses.
    pub(crate) fn max_queue_delay(&self) -> u64 {
        // A thousand clients of small files wait for each other for longer than four.
        self.max_queue_delay.unwrap_or(if self.small { 15 } else { 4 })
    }

    /// Whether the server of this name is wanted.
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
