//! `phalanx-bench cluster`: three brokers over NATS compared with one broker.
//!
//! [`Options`] describes the method. Read `case` (the comparisons), `rows`, `servers` (the processes), `takeover`,
//! `killed`, and `report`. The load is that of [`broker`](super::broker).

mod case;
mod killed;
mod report;
mod rows;
mod servers;
mod takeover;

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::experiments::broker::server::Home;
use crate::measure::{Machine, Run, measure_each, measure_more};
use crate::runner::RunnerOptions;
use crate::system::{Bound, install_signal_handlers};

use case::Case;
use killed::{Killed, Times};
use report::{Failed, Report, Row};
use servers::{Servers, version};

/// Compare three brokers over NATS with one broker.
///
/// A single broker, three brokers of a cluster and their NATS server run concurrently on the same cores, with as many
/// workers each; one load generator visits the single broker and the cluster in turn. Figures are medians of the
/// rounds, ratios and differences are of paired slices. All clients use MQTT 5; state is in memory. The cases of kept
/// sessions have state on disk, and three NATS servers with copies of it, which write to the disk without waiting for
/// it (they do not have `sync_interval: always`). Requires nats-server (Debian: apt-get install nats-server). A
/// measurement that fails is listed, and the others go on. Ctrl-C prints the results so far.
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
    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// The length of a slice of this part.
    fn slice(&self, part: Part) -> Duration {
        let default = if part == Part::Kept { 5.0 } else { 0.5 };
        self.slice.unwrap_or(Duration::from_secs_f64(default))
    }

    /// The options with the settings of a quick run applied.
    fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.rounds, own.slice) = (1, Some(Duration::from_millis(50)));
            (own.takeovers, own.kills) = (3, 1);
        }
        own
    }
}

/// Measures the cases. A case that fails is reported and does not end the run.
pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let options = options.settled();
    let nats = version()?;
    let (cores, processors) = options.runner.cores()?;
    let machine = Machine::here(processors, &cores);
    phalanx::runtime::raise_open_files();
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let home = Home { directory: directory.path(), cores: &cores.server, processors };
    // Keep this process off the servers' cores.
    let _bound = Bound::to(&cores.load)?;
    let mut running: Option<Servers> = None;
    let cases: Vec<_> = Case::ALL.into_iter().filter(|case| options.has(case.part())).collect();
    let mut failed: Vec<Failed> = Vec::new();
    let (measured, mut partial) = measure_each(&cases, options.rounds, |case, round| {
        let name = format!("{case:?}");
        if failed.iter().any(|failed| failed.case == name) {
            return Ok(None);
        }
        eprintln!("{name}, round {round} of {}", options.rounds);
        // Processes that are not measured do not run beside.
        running.take_if(|servers| servers.state != case.state());
        let servers =
            running.take().map_or_else(|| Servers::start(case.state(), &options, home), Ok);
        let measured = servers.and_then(|servers| {
            let measured = case.measure(&servers, &cores, &options)?;
            running = Some(servers);
            Ok(measured)
        });
        Failed::keep(&mut failed, name, measured)
    })?;
    drop(running);
    let mut rows: Vec<Row> = Vec::new();
    for (case, rounds) in cases.iter().zip(measured) {
        rows.extend(case.rows(&rounds.into_iter().flatten().collect::<Vec<_>>()));
    }
    if partial.is_none() && options.has(Part::Killed) {
        let cases = Killed::all(options.quick);
        // The kinds take turns.
        let kills = cases.repeat(options.kills);
        let times;
        (times, partial) = measure_more(&kills, |killed| {
            let measured = killed.measure(&options, home, &cores);
            Ok((*killed, Failed::keep(&mut failed, killed.to_string(), measured)?))
        })?;
        for killed in cases {
            let own = times.iter().filter(|(of, _)| *of == killed);
            let own: Vec<&Times> = own.filter_map(|(_, times)| times.as_ref()).collect();
            rows.extend(killed.rows(&own));
            failed.extend(killed.failed(&own));
        }
    }
    let report = Report { rows, failed, nats, payload: options.payload };
    Ok(Run::new(report, machine, partial, options.quick))
}
