//! `phalanx-bench scale`: cost, throughput and latency of servers by their number of processors.
//!
//! Read `web`, `broker` and `kv` (the servers and their loads) and `report` (paired rounds).

mod broker;
mod kv;
mod report;
mod web;

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Machine, Run};
use crate::runner::SetupOptions;
use crate::system::{Cores, install_signal_handlers};

use report::{Report, Row};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The web server with one popular file, and with 1,000 files of equal popularity
    Web,
    /// The MQTT broker
    Broker,
    /// The example `kv` compared with redis
    Kv,
}

/// Measure servers with increasing numbers of processors.
///
/// Each server runs once for each number of processors, peers with as many workers, Phalanx with its threads not bound
/// to cores and bound (`-pin`). All run concurrently and are visited in turn. Figures are medians of the rounds;
/// ratios are of paired slices. The load has cores of its own where there are at least four; otherwise servers and
/// load share all cores, with any number of processors. `kv` and redis require `cargo build --release -p phalanx-kv`
/// and the packages redis-server and redis-tools.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of processors; ratios are relative to the first
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32",
          value_parser = number(1..=64))]
    pub(crate) processors: Vec<usize>,

    /// Kinds of servers [default: all]
    #[arg(long = "part", value_name = "NAME,…", value_delimiter = ',', value_enum)]
    pub(crate) parts: Vec<Part>,

    /// Only these servers, as in phalanx,nginx-nosf or phalanx-pin
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Numbers of connections of the web server's load and of that of `kv`
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64", value_parser = number(1..=10_000))]
    pub(crate) connections: Vec<usize>,

    /// Slices per server and setting
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) setup: SetupOptions,

    /// Few short slices with one and two processors: only checks that it runs
    #[arg(long, conflicts_with_all = ["processors", "rounds", "slice"])]
    pub(crate) quick: bool,
}

impl Options {
    /// The options with the settings of a quick run applied.
    fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.processors, own.rounds, own.slice) = (vec![1, 2], 1, Duration::from_millis(100));
        }
        if own.parts.is_empty() {
            own.parts = Part::value_variants().to_vec();
        }
        own
    }

    /// Whether to measure the server of this name.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// The cores of a server with this many processors: as many, or all where the load shares them.
    fn server_cores<'a>(&self, cores: &'a Cores, processors: usize) -> &'a [usize] {
        match cores.are_shared() {
            true => &cores.server,
            false => &cores.server[..processors.min(cores.server.len())],
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    phalanx::runtime::raise_open_files();
    let options = options.settled();
    let cores = Cores::choose(&options.setup.server_cores, &options.setup.load_cores, None)?;
    let most = options.processors.iter().copied().max().unwrap_or(1);
    let mut report = Report { rows: Vec::new(), interrupted: false };
    let rows = &mut report.rows;
    let measured = options.parts.iter().try_for_each(|part| match part {
        Part::Web => web::run(&options, &cores, rows),
        Part::Broker => broker::run(&options, &cores, rows),
        Part::Kv => kv::run(&options, &cores, rows),
    });
    match measured {
        Err(Error::Interrupted) if !report.rows.is_empty() => report.interrupted = true,
        measured => measured?,
    }
    if report.rows.is_empty() {
        return Err(Error::NoServers);
    }
    Ok(Run::new(report, Machine::here(most, &cores), None, options.quick))
}
