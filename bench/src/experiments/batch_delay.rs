//! `phalanx-bench batch-delay`: processor time saved and latency added by a batching delay.
//!
//! The 2002 paper (§2) states that a server can defer requests until a cohort has arrived, but does not measure
//! it. `phalanx web --batch-delay` is such a delay, and this benchmark measures its curve.

use std::time::Duration;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Rounds as _, Run, Sample, record, slice_counts};
use crate::runner::{Plan, Runner, RunnerOptions, Shot, Slice, ours, slice};
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
/// --batch-delay; all run concurrently on one core and are visited in turn with the same arrivals. Ratios are taken
/// slice by slice; figures are medians.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = number(1..=15_000))]
    pub(crate) connections: usize,

    /// Batching delays; the others are compared with the first
    #[arg(long, value_name = "MICROSECONDS,…", value_delimiter = ',', default_values_t = HOLDS,
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub(crate) holds: Vec<u64>,

    /// Slices per setting
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice"])]
    pub(crate) quick: bool,
}

record! {
    /// The report of `phalanx-bench batch-delay`.
    pub(crate) struct Report {
        /// One per load and setting.
        rows: Vec<Row> | "small files in open loop at shares of the capacity", 1;
        /// Requests per second of the server without a delay in closed loop.
        capacity: f64 => "requests/s in closed loop", 0;
        /// The driver of Phalanx.
        driver: Option<&'static str>;
    }
}

record! {
    /// One setting under one load; medians of the slices.
    pub(crate) struct Row, fn new(load: f64, hold_us: u64, seen: &[Slice], first: &[Slice]) {
        /// Share of the capacity.
        load: f64 => "load", 2;
        /// The batching delay in microseconds.
        hold_us: u64 => "delay µs", 0;
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2 = seen.median(Slice::cpu_us);
        /// Median of the slices' ratios to the first setting.
        cpu_over_first: f64 => "of first", 2 = seen.over(first, Slice::cpu_us);
        /// Median latency in microseconds.
        p50_us: f64 => "p50 µs", 0 = seen.median(Slice::p50_us);
        /// Median latency above that of the first setting.
        p50_added_us: f64 => "added", 0 = seen.above(first, Slice::p50_us);
        /// 99th percentile of the latency in microseconds.
        p99_us: f64 => "p99 µs", 0 = seen.median(Slice::p99_us);
        sample: Sample, flatten = slice_counts(seen);
    }
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let (slices, slice) = match options.quick {
        true => (1, slice::QUICK),
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
    let title = |load: &f64| format!("{:.0} % of {capacity:.0}/s", load * 100.0);
    let (measured, partial) = runner.slices(&LOADS, title, (slices, slice), |load, seed| Shot {
        rate: Some(capacity * load),
        ..Shot::closed(options.connections, seed, REQUEST_TIMEOUT)
    })?;
    let mut rows = Vec::new();
    for (load, seen) in LOADS.into_iter().zip(measured) {
        let row = |(hold, of): (&u64, &Vec<_>)| Row::new(load, *hold, of, &seen[0]);
        rows.extend(options.holds.iter().zip(&seen).map(row));
    }
    let driver = runner.servers[0].driver;
    Ok(runner.report(Report { rows, capacity, driver }, partial, options.quick))
}
