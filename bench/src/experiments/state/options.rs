//! The command line of `phalanx-bench state`.

use clap::Args;

use crate::arguments::number;
use crate::runner::RunnerOptions;

/// Measure what a broker holds: its memory, and the time of a restart.
///
/// The servers run one after the other. Each gets idle connections, then a subscription of each, loses all of them, and
/// gets the connections once more. Memory is resident memory that the objects add, divided by their number. The brokers
/// that store their state get sessions with a subscription, retained messages and queued messages, and are ended:
/// Phalanx by SIGKILL, mosquitto by SIGTERM, at which it saves. The time of the restart ends with the first CONNACK;
/// then some sessions and retained messages are read back. Peers that are not installed are left out. Ctrl-C prints the
/// results so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Idle connections [default: as many as the limit of open files permits, up to 20,000]
    #[arg(long, value_name = "N", value_parser = number(1..=1_000_000))]
    pub(crate) connections: Option<usize>,

    /// Sessions without a connection; 0 to leave out the restart
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number(0..=10_000_000))]
    pub(crate) sessions: usize,

    /// Retained messages
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=10_000_000))]
    pub(crate) retained: usize,

    /// Queued messages
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = number(1..=10_000_000))]
    pub(crate) queued: usize,

    /// Payload size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = number(1..=65_536))]
    pub(crate) payload: usize,

    /// Only these servers: phalanx, mosquitto, rumqttd, mochi-mqtt
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Driver: uring or poll; by default the better available one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub(crate) driver: String,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// Few objects: only checks that it runs
    #[arg(long, conflicts_with_all = ["connections", "sessions", "retained", "queued"])]
    pub(crate) quick: bool,
}

/// Maximum number of connections that are chosen without an option.
const MAX_CONNECTIONS: usize = 20_000;
/// Descriptors that are left for other files.
const SPARE_FILES: usize = 100;

impl Options {
    /// The options with the settings of a quick run applied.
    pub(super) fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.connections, own.sessions, own.retained, own.queued) = (Some(50), 20, 100, 60);
        }
        own
    }

    /// The number of idle connections.
    pub(super) fn connections(&self) -> usize {
        // The load has as many descriptors as a server.
        let files = phalanx::runtime::raise_open_files().unwrap_or(u64::MAX);
        let most = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(SPARE_FILES);
        self.connections.unwrap_or(most.min(MAX_CONNECTIONS))
    }

    /// Whether a server is measured.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}
