//! The command line of `phalanx-bench cluster`.

use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::runner::RunnerOptions;

/// Compare three brokers over NATS with one broker.
///
/// A single broker, three brokers of a cluster and their NATS server run at once on the same cores, with as many workers
/// each; one load generator visits the single broker and the cluster in turn. Figures are medians of the rounds, ratios
/// and differences are of paired slices. All clients use MQTT 5; state is in memory. Requires nats-server
/// (Debian: apt-get install nats-server). Ctrl-C prints the results so far.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rounds of slices per case
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub slice: Duration,

    /// Payload size in bytes; the first 12 bytes hold the time and the sender
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = number(12..=65_536))]
    pub payload: usize,

    /// Takeovers per round
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number(1..=100_000))]
    pub takeovers: usize,

    /// Driver: uring or poll; by default the better available one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: String,

    /// Cores and program
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice", "takeovers"])]
    pub quick: bool,
}

impl Options {
    /// The options with the settings of a quick run applied.
    pub(super) fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.rounds, own.slice, own.takeovers) = (1, Duration::from_millis(50), 3);
        }
        own
    }
}
