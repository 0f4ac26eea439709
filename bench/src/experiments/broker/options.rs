//! The command line of `phalanx-bench broker`.

use std::time::Duration;

use clap::Args;

use super::shape::Shape;
use crate::arguments::{number, parse, seconds};
use crate::runner::{RunnerOptions, SetupOptions};
use phalanx_kernels::workload::Workload;

/// Measure the broker and others: messages per second of processor time.
///
/// All run at once on the same cores, with as many workers (mosquitto has one); one load generator visits them in
/// turn. It keeps a window of messages in flight and sends the next ones when those have arrived, so that nothing
/// is dropped. Figures are medians of the rounds, ratios are of paired slices. All clients use MQTT 5; state is
/// in memory, and logs are off. With QoS 1 Phalanx is also measured with --persistence-dir and persistent
/// sessions (`phalanx-kept`). Mosquitto runs with TCP_NODELAY and without (`mosquitto-nagle`), and the better one
/// counts. Peers that are not installed are left out; `cargo xtask peers` installs rumqttd and mochi-mqtt. Ctrl-C
/// prints the results so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Shapes of the load [default: all]
    #[arg(long = "shape", value_name = "NAME,…", value_delimiter = ',', value_enum)]
    pub(crate) shapes: Vec<Shape>,

    /// Slices per server and shape
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Payload size in bytes; the first 12 bytes hold the time and the sender
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = number(12..=65_536))]
    pub(crate) payload: usize,

    /// Number of filters on message properties, in the shape `filters`
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=10_000_000))]
    pub(crate) filters: usize,

    /// Workload of these filters, as in `phalanx-bench match`
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub(crate) workload: Workload,

    /// Driver: uring or poll; by default the better available one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub(crate) driver: String,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each and few filters: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice", "filters"])]
    pub(crate) quick: bool,
}

impl Options {
    /// The defaults, with these programs and cores.
    pub(crate) fn of(setup: SetupOptions, quick: bool) -> Self {
        let runner = RunnerOptions { processors: None, setup };
        Self { runner, quick, ..parse(["--rounds=1", "--filters=1"].map(str::to_owned)) }
    }

    /// The options with the settings of a quick run applied.
    pub(super) fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.rounds, own.slice, own.filters) = (1, Duration::from_millis(50), 2000);
        }
        if own.shapes.is_empty() {
            own.shapes = Shape::ALL.to_vec();
        }
        own
    }
}
