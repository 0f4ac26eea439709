//! `phalanx-bench overload`: goodput of a server under overload.
//!
//! [`Options`] describes the method, `report` the figures.

mod report;

use std::path::Path;
use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::load;
use crate::measure::{Run, partial};
use crate::runner::{self, Plan, Runner, RunnerOptions, Server, Shot, Site, ours};

use report::{Report, Slice};

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
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_values_t = LOADS, value_parser = share)]
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

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if (0.01..=10.0).contains(&load) => Ok(load),
        _ => Err("from 0.01 to 10".to_owned()),
    }
}

/// Size of the site in bytes: too large for the servers' caches, but not for the kernel's. The files are large
/// enough that a rejection is cheap compared with an answer.
const SITE: usize = 64 << 20;
/// Cache size of the server.
const CACHE: &str = "1M";
/// Connections for measuring the closed-loop capacity: the largest of these without rejections.
const CONNECTIONS_AT_CAPACITY: [usize; 4] = [64, 32, 16, 8];
/// Minimum length, for enough answers to count.
const MIN_SLICE: Duration = Duration::from_millis(300);
/// Tolerated share of rejections among the answers, as in a short disturbance.
const MAX_REFUSED_SHARE: f64 = 0.01;
/// Maximum relative difference of the two capacities around a slice. Beyond it the machine has changed.
const MAX_CAPACITY_SPREAD: f64 = 0.2;
/// Response time after which a request counts as unanswered.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The latency objective.
pub(crate) const OBJECTIVE: Duration = Duration::from_millis(50);

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let (loads, slices, slice) = options.plan();
    let (_, ours) = ours();
    let wants = |name: &str| {
        let asked = options.wants(name.split('-').next().unwrap_or(name));
        asked && (name == ours || ["twin", "nginx"].contains(&name))
    };
    let wait = format!("{}ms", options.max_queue_delay());
    let mut arguments = vec!["--max-queue-delay", &*wait];
    if !options.small {
        arguments.extend(["--cache", CACHE]);
    }
    let site = |directory: &Path| match options.small {
        true => Site::make(directory),
        false => {
            let bytes = options.file_bytes;
            Site::with_sizes(directory, &vec![bytes; SITE.div_ceil(bytes).clamp(1, 4096)], 0.0)
        }
    };
    let plan = Plan { arguments: &arguments, site: &site, ..Plan::small(&wants, options.quick) };
    let runner = Runner::start(&options.runner, &plan)?;
    let rounds = (1..=slices).flat_map(|round| runner.servers.iter().map(move |one| (round, one)));
    let (measured, partial) =
        partial::measure_each(&rounds.collect::<Vec<_>>(), 1, |&(round, server), _| {
            eprintln!("round {round} of {slices}: {}", server.name);
            Bench { runner: &runner, server, options, slice }.round(&loads, round)
        })?;
    let slices: Vec<_> = measured.into_iter().flatten().flatten().collect();
    let report = Report::new(options, &runner, &slices);
    Ok(runner.report(report, partial, options.quick))
}

/// A server and its load.
struct Bench<'a> {
    runner: &'a Runner,
    server: &'a Server,
    options: &'a Options,
    slice: Duration,
}

impl Bench<'_> {
    /// A slice of each load, with the capacity measured around it.
    fn round(&self, loads: &[f64], round: usize) -> Result<Vec<Slice>, Error> {
        let fastest = self.fastest()?;
        // Successful answers per second while offered the fastest closed-loop rate. They are below the closed-loop rate, at
        // which few connections stay in the caches.
        let capacity = || {
            let shot = self.open(fastest, 1);
            self.known(self.calibrate(shot)?.successes_per_second())
        };
        let mut before = capacity()?;
        let mut slices = Vec::new();
        for &load in loads {
            let shot = self.open(before * load, round);
            let runner::Slice { report, noisy } =
                self.runner.slice(self.server, self.slice, shot)?;
            let status = &report.status;
            if status.client_error + status.redirection + status.other + report.errors.malformed > 0
            {
                let reason = format!("wrong answers: {status:?} {:?}", report.errors);
                return Err(Error::load(&self.server.name, reason));
            }
            let after = capacity()?;
            let server = self.server.server;
            let slice = Slice { server, load, capacity: before, report, noisy };
            slices.push(slice.between(before, after));
            before = after;
        }
        Ok(slices)
    }

    /// Successful answers per second in closed loop.
    fn fastest(&self) -> Result<f64, Error> {
        let mut best = 0.0;
        for connections in CONNECTIONS_AT_CAPACITY {
            let report = self.calibrate(self.closed(connections, 1))?;
            best = f64::max(best, report.successes_per_second());
            let refused = report.status.server_error as f64;
            if refused <= MAX_REFUSED_SHARE * report.status.success as f64 {
                break;
            }
        }
        self.known(best)
    }

    fn calibrate(&self, shot: Shot) -> Result<load::Report, Error> {
        let slice = (self.slice / 2).max(MIN_SLICE);
        Ok(self.runner.slice(self.server, slice, shot)?.report)
    }

    fn known(&self, rate: f64) -> Result<f64, Error> {
        match rate > 0.0 {
            true => Ok(rate),
            false => Err(Error::load(&self.server.name, "it answers no request")),
        }
    }

    /// Closed loop.
    fn closed(&self, connections: usize, seed: usize) -> Shot {
        // The poll driver lets the kernel discard the bodies of large answers.
        let driver = (!self.options.small).then_some("poll");
        Shot { driver, ..Shot::closed(connections, seed, REQUEST_TIMEOUT) }
    }

    /// Open loop with the given rate over all connections.
    fn open(&self, rate: f64, seed: usize) -> Shot {
        let finish = Some(REQUEST_TIMEOUT);
        Shot { rate: Some(rate), finish, ..self.closed(self.options.connections, seed) }
    }
}
