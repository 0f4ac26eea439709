//! The command line of `phalanx bench broker`.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::shape::Shape;
use crate::load::seconds;
use crate::matching::Workload;
use crate::web::runner::RunnerOptions;

/// Measure the broker beside mosquitto: messages per second of processor time.
///
/// Both are up at once, each on one processor and bound to the same core; one load visits them in turn from another
/// core. It has so many messages under way as a shape says, and sends the next when those have arrived, so that
/// nothing is dropped. Figures are medians of the rounds, and ratios those of paired slices. All is in MQTT 5 and
/// in memory, nothing is logged; with QoS 1 ours is measured once more with --persistence-dir and sessions that are kept (`phalanx-kept`). mosquitto runs with TCP_NODELAY and (`mosquitto-nagle`) without, and the better
/// counts. Where it is not installed only ours is measured.
///
/// JSON: `rows[]` with `shape`, `qos`, `properties` (user properties of each message), `server`, `publishers`,
/// `subscribers`, `window`, `unit` (what is counted: `delivered` or `acknowledged`), `per_cpu_s`, `per_s`,
/// `server_busy`, `client_busy` (shares of a core), `p50_us`, `p99_us` (in the shape `light`), `over_mosquitto`
/// (of `per_cpu_s`), `slices`, `noisy_slices`; `worst_over_mosquitto`, `kept_acknowledged_per_s`, `filters_per_s`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Who sends to whom; all of them unless told
    #[arg(long = "shape", value_name = "NAME,…", value_delimiter = ',', value_enum)]
    pub shapes: Vec<Shape>,

    /// How many slices each server gets in each shape
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub slice: Duration,

    /// Bytes of a payload, of which the first 12 say when it was sent and by whom
    #[arg(long, value_name = "BYTES", default_value_t = 32,
          value_parser = RangedU64ValueParser::<usize>::new().range(12..=65_536))]
    pub payload: usize,

    /// Filters on what messages carry, in the shape `filters`
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000_000))]
    pub filters: usize,

    /// What these filters ask for, as in `phalanx bench match`
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub workload: Workload,

    /// The better driver that there is, or this one: uring or poll
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: String,

    /// Where
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// One short slice each, and few filters: only shows that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice", "filters"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// As it is run.
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
