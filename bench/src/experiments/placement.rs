//! `phalanx-bench placement`: processor time and latency with as many active workers as the load needs.
//!
//! The paper on NewtOS (Hruby et al., SFMA 2013) proposes to use few cores at low load and all at peak load. It
//! evaluates no such policy. `phalanx web --placement on` is one, and this benchmark compares it with all workers.

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

/// Offered loads as shares of the capacity: a calm server, and a burst of four times that load.
const LOADS: [f64; 2] = [CALM, 4.0 * CALM];
const CALM: f64 = 0.2;
/// The settings; the others are compared with the first.
const PLACEMENTS: [&str; 2] = ["off", "on"];
/// Maximum response time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Measure the web server's processor time and latency with automatic placement.
///
/// Small files over keep-alive connections in open loop, at 20 and 80 % of the closed-loop capacity. Two servers, one
/// with all workers active and one with as many as the load needs, run at once and are visited in turn with the same
/// arrivals. Before each slice a calm load lets the second one remove workers. Ratios are taken slice by slice; figures
/// are medians.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number(1..=15_000))]
    pub connections: usize,

    /// Slices per setting
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub slice: Duration,

    /// Length of the calm load before each slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = seconds)]
    pub calm: Duration,

    /// Cores and program
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice", "calm"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

record! {
    /// The report of `phalanx-bench placement`.
    pub struct Report {
        /// One per load and setting.
        rows: Vec<Row> | "small files in open loop at shares of the capacity", 1;
        /// Requests per second of the server with all workers active in closed loop.
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
        /// `--placement`.
        placement: &'static str => "placement", 0;
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2;
        /// Median of the slices' ratios to all workers active.
        cpu_over_off: f64 => "of off", 2;
        /// Median latency in microseconds.
        p50_us: f64 => "p50 µs", 0;
        /// 99th percentile of the latency in microseconds.
        p99_us: f64 => "p99 µs", 0;
        /// Median of the slices' ratios to all workers active.
        p99_over_off: f64 => "of off", 2;
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
    let (slices, slice, calm) = match options.quick {
        true => (1, Duration::from_millis(300), Duration::from_millis(100)),
        false => (options.slices, options.slice, options.calm),
    };
    let (driver, ours) = ours();
    let arguments = |placement| ["--max-queue-delay", "0", "--placement", placement];
    let wants = |name: &str| name == ours;
    let all = arguments(PLACEMENTS[0]);
    let plan = Plan { arguments: &all, ..Plan::small(&wants, options.quick) };
    let mut runner = Runner::start(&options.runner, &plan)?;
    for placement in &PLACEMENTS[1..] {
        runner.add_web(driver, &arguments(placement))?;
    }
    let capacity = runner.capacity(&runner.servers[0], slice, options.connections)?;
    let (measured, partial) = partial::measure_each(&LOADS, slices, |load, seed| {
        eprintln!("{:.0} % of {capacity:.0}/s, slice {seed} of {slices}", load * 100.0);
        let shot = |load: f64| Shot {
            rate: Some(capacity * load),
            ..Shot::closed(options.connections, seed, REQUEST_TIMEOUT)
        };
        let measure = |server| {
            runner.slice(server, calm, shot(CALM))?;
            runner.slice(server, slice, shot(*load))
        };
        runner.servers.iter().map(measure).collect()
    })?;
    let mut rows = Vec::new();
    for (load, rounds) in LOADS.into_iter().zip(measured) {
        let seen = partial::by_server(rounds);
        let row =
            |(placement, of): (&&'static str, &Vec<_>)| Row::new(load, placement, of, &seen[0]);
        rows.extend(PLACEMENTS.iter().zip(&seen).map(row));
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
    fn new(
        load: f64,
        placement: &'static str,
        seen: &[(Seen, bool)],
        off: &[(Seen, bool)],
    ) -> Self {
        let cpu = |report: &Seen| report.server_cpu_us_per_request.unwrap_or(f64::NAN);
        let p99 = |report: &Seen| report.latency.p99_us;
        let of = |figure: &dyn Fn(&Seen) -> f64| {
            median(&seen.iter().map(|(report, _)| figure(report)).collect::<Vec<_>>())
        };
        let over = |figure: &dyn Fn(&Seen) -> f64| {
            let pairs = seen.iter().zip(off);
            pairs.map(|((this, _), (off, _))| figure(this) / figure(off)).collect::<Vec<_>>()
        };
        let (cpu_over_off, p99_over_off) = (over(&cpu), over(&p99));
        Self {
            load,
            placement,
            cpu_us_per_request: of(&cpu),
            cpu_over_off: median(&cpu_over_off),
            p50_us: of(&|report| report.latency.p50_us),
            p99_us: of(&p99),
            p99_over_off: median(&p99_over_off),
            slices: seen.len(),
            noisy_slices: seen.iter().filter(|(_, noisy)| *noisy).count(),
            spread: spread([("cpu_over_off", cpu_over_off), ("p99_over_off", p99_over_off)]),
        }
    }
}
