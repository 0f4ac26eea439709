//! The command line of `phalanx-bench cluster`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::arguments::{number, seconds};
use crate::runner::RunnerOptions;

/// Compare three brokers over NATS with one broker.
///
/// A single broker, three brokers of a cluster and their NATS server run at once on the same cores, with as many workers
/// each; one load generator visits the single broker and the cluster in turn. Figures are medians of the rounds, ratios
/// and differences are of paired slices. All clients use MQTT 5; state is in memory. The cases of kept sessions have
/// state on disk, and three NATS servers with copies of it, which write to the disk without waiting for it (they do not
/// have `sync_interval: always`). Requires nats-server (Debian: apt-get install nats-server). A measurement that fails is
/// listed, and the others go on. Ctrl-C prints the results so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Parts of the benchmark [default: all]
    #[arg(long = "part", value_name = "NAME,…", value_delimiter = ',', value_enum)]
    pub(crate) parts: Vec<Part>,

    /// Rounds of slices per case
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a slice, in seconds [default: 0.5; 5 in the part kept, where a message takes longer]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) slice: Option<Duration>,

    /// Payload size in bytes; the first 12 bytes hold the time and the sender
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = number(12..=65_536))]
    pub(crate) payload: usize,

    /// Takeovers per round, and moves of sessions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number(1..=100_000))]
    pub(crate) takeovers: usize,

    /// Nodes to kill for each kind of queues
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(1..=1000))]
    pub(crate) kills: usize,

    /// Driver: uring or poll; by default the better available one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub(crate) driver: String,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice", "takeovers", "kills"])]
    pub(crate) quick: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Messages and takeovers, with all state in memory.
    Memory,
    /// Messages for a kept session.
    Kept,
    /// Nodes that are killed.
    Killed,
}

impl Options {
    /// Whether this part is measured.
    pub(super) fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// The length of a slice of this part.
    pub(super) fn slice(&self, part: Part) -> Duration {
        let default = if part == Part::Kept { 5.0 } else { 0.5 };
        self.slice.unwrap_or(Duration::from_secs_f64(default))
    }

    /// The options with the settings of a quick run applied.
    pub(super) fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.rounds, own.slice) = (1, Some(Duration::from_millis(50)));
            (own.takeovers, own.kills) = (3, 1);
        }
        own
    }
}
