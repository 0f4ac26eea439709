//! `phalanx-bench dial`: processor time saved and latency added by a batching delay.
//!
//! The 2002 paper (§2) states that a server can defer requests until a cohort has arrived, but does not measure
//! it. `phalanx web --batch-delay` is such a delay, and this benchmark measures its curve.

use std::time::Duration;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::load::Report as Seen;
use crate::measure::machine::Machine;
use crate::measure::partial::{self, Partial};
use crate::measure::record::record;
use crate::measure::stats::{Spread, median, spread};
use crate::runner::events::EventRow;
use crate::runner::servers::ours;
use crate::runner::slice::Shot;
use crate::runner::{Plan, Runner, RunnerOptions};
use clap::Args;

/// Default batching delays in microseconds.
const HOLDS: [u64; 4] = [0, 200, 500, 1000];
/// Offered loads as shares of the capacity.
const LOADS: [f64; 6] = [0.1, 0.3, 0.45, 0.6, 0.8, 0.95];
/// Maximum response time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Measure the web server's processor time and latency by batching delay.
///
/// Small files over keep-alive connections in open loop, at shares of the closed-loop capacity. One server per
/// --batch-delay; all run at once on one core and are visited in turn with the same arrivals. Ratios are taken
/// slice by slice; figures are medians.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = number(1..=15_000))]
    pub connections: usize,

    /// Batching delays; the others are compared with the first
    #[arg(long, value_name = "MICROSECONDS,…", value_delimiter = ',', default_values_t = HOLDS,
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub holds: Vec<u64>,

    /// Slices per setting
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

record! {
    /// The report of `phalanx-bench dial`.
    pub struct Report {
        /// One per load and setting.
        rows: Vec<Row> | "small files in open loop at shares of the capacity", 1;
        /// Requests per second of the server without a delay in closed loop.
        capacity: f64 => "requests/s in closed loop", 0;
        /// The driver of Phalanx.
        driver: Option<&'static str>;
        /// Hardware events, if the processor counts them.
        hardware_events: Vec<EventRow> | "hardware events per request", 0;
        /// The machine and cores of the measurement.
        machine: Machine;
        /// Progress, if the run was interrupted.
        partial: Option<Partial>;
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool;
    }
}

record! {
    /// One setting under one load; medians of the slices.
    pub struct Row {
        /// Share of the capacity.
        load: f64 => "load", 2;
        /// The batching delay in microseconds.
        hold_us: u64 => "delay µs", 0;
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2;
        /// Median of the slices' ratios to the first setting.
        cpu_over_first: f64 => "of first", 2;
        /// Median latency in microseconds.
        p50_us: f64 => "p50 µs", 0;
        /// Median latency above that of the first setting.
        p50_added_us: f64 => "added", 0;
        /// 99th percentile of the latency in microseconds.
        p99_us: f64 => "p99 µs", 0;
        /// Number of measured slices.
        slices: usize => "slices", 0;
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0;
        /// Quartiles of the slices.
        spread: Spread;
    }
}

/// Runs the benchmark. Progress goes to stderr. SIGINT and SIGTERM end it from here on; the results so far are
/// reported.
///
/// # Errors
/// When a measurement fails, or on a signal before the first result; all child processes are ended.
pub fn run(options: &Options) -> Result<Report, Error> {
    let (slices, slice) = match options.quick {
        true => (1, Duration::from_millis(300)),
        false => (options.slices, options.slice),
    };
    let (driver, ours) = ours();
    let delay = |hold: u64| format!("{hold}us");
    let first = delay(options.holds[0]);
    let wants = |name: &str| name == ours;
    let plan = Plan {
        arguments: &["--max-queue-delay", "0", "--batch-delay", &first],
        ..Plan::small(&wants, options.quick)
    };
    let mut runner = Runner::start(&options.runner, &plan)?;
    for hold in &options.holds[1..] {
        runner.add_web(driver, &["--max-queue-delay", "0", "--batch-delay", &delay(*hold)])?;
    }
    let capacity = runner.capacity(&runner.servers[0], slice, options.connections)?;
    let (measured, partial) = partial::measure_each(&LOADS, slices, |load, seed| {
        eprintln!("{:.0} % of {capacity:.0}/s, slice {seed} of {slices}", load * 100.0);
        let shot = Shot::closed(options.connections, seed, REQUEST_TIMEOUT);
        let shot = Shot { rate: Some(capacity * load), ..shot };
        runner.servers.iter().map(|server| runner.slice(server, slice, shot)).collect()
    })?;
    let mut rows = Vec::new();
    for (load, rounds) in LOADS.into_iter().zip(measured) {
        let seen = partial::by_server(rounds);
        let row = |(hold, of): (&u64, &Vec<_>)| Row::new(load, *hold, of, &seen[0]);
        rows.extend(options.holds.iter().zip(&seen).map(row));
    }
    Ok(Report {
        rows,
        capacity,
        driver: runner.servers[0].driver,
        partial,
        hardware_events: runner.events(),
        machine: runner.machine.clone(),
        quick: options.quick,
    })
}

impl Row {
    fn new(load: f64, hold_us: u64, seen: &[(Seen, bool)], first: &[(Seen, bool)]) -> Self {
        let cpu = |report: &Seen| report.server_cpu_us_per_request.unwrap_or(f64::NAN);
        let p50 = |report: &Seen| report.latency.p50_us;
        let of = |figure: &dyn Fn(&Seen) -> f64| {
            median(&seen.iter().map(|(report, _)| figure(report)).collect::<Vec<_>>())
        };
        let pairs = |figure: &dyn Fn(&Seen, &Seen) -> f64| {
            let pairs = seen.iter().zip(first);
            pairs.map(|((this, _), (first, _))| figure(this, first)).collect::<Vec<_>>()
        };
        let over_first = pairs(&|this, first| cpu(this) / cpu(first));
        let added = pairs(&|this, first| p50(this) - p50(first));
        Self {
            load,
            hold_us,
            cpu_us_per_request: of(&cpu),
            cpu_over_first: median(&over_first),
            p50_us: of(&p50),
            p50_added_us: median(&added),
            p99_us: of(&|report| report.latency.p99_us),
            slices: seen.len(),
            noisy_slices: seen.iter().filter(|(_, noisy)| *noisy).count(),
            spread: spread([("cpu_over_first", over_first), ("p50_added_us", added)]),
        }
    }
}
