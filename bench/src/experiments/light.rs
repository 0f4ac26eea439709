//! `phalanx-bench light`: latency at light load.
//!
//! At light load the latency of the 2002 paper's staged server was almost 20 times that of the threaded one
//! (§5.1, Figure 6). The paper names no cause; its idle processors slept for growing intervals (§4.1.2). The
//! latency of an answer is a wake-up and the work, so this measures the time that a processor adds between the
//! two.

use std::time::Duration;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::machine::Machine;
use crate::measure::partial::{self, Partial};
use crate::measure::record::record;
use crate::measure::stats::{Spread, median, spread};
use crate::runner::events::EventRow;
use crate::runner::server::Server;
use crate::runner::servers::ours;
use crate::runner::slice::Shot;
use crate::runner::{Plan, Runner, RunnerOptions};
use clap::Args;

/// Offered loads as shares of the capacity.
const LOADS: [f64; 3] = [0.01, 0.05, 0.2];
/// Connections in closed loop for measuring the capacity.
const FULL: usize = 64;
/// Rounds of a quick run.
const QUICK: usize = 1;

/// Measure the web server's latency at light load and that of its threaded twin.
///
/// Small files over keep-alive connections in open loop, at 1, 5 and 20 percent of the capacity of the slower
/// server. Both servers run at once on one core; the load on another core visits them in turn, in short slices
/// with the same arrivals. Latency counts from the intended start. Ratios are taken slice by slice; figures are
/// their medians. A slice in which other processes used a core is repeated.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number(1..=20_000))]
    pub connections: usize,

    /// Slices per server and load
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = number(1..=1000))]
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
    /// The report of `phalanx-bench light`.
    pub struct Report {
        /// One per load.
        rows: Vec<Row> | "latency of small files at shares of the capacity, in µs", 0;
        /// The largest `p50_over_twin` of the rows.
        p50_over_twin: f64 => "p50 over the twin, the worst load", 2;
        /// The largest `p99_over_twin` of the rows.
        p99_over_twin: f64 => "p99 over the twin, the worst load", 2;
        /// Requests per second of the slower server in closed loop.
        capacity: f64 => "requests/s of the slower server in closed loop", 0;
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
    /// Both servers under one load. Latencies are in microseconds, medians of the slices.
    pub struct Row {
        /// Share of the capacity.
        load: f64 => "load", 2;
        /// Requests offered per second.
        rate: f64 => "requests/s", 0;
        /// Median latency of Phalanx.
        phalanx_p50_us: f64 => "p50", 0;
        /// 99th percentile of Phalanx.
        phalanx_p99_us: f64 => "p99", 0;
        /// Median latency of the twin.
        twin_p50_us: f64 => "twin p50", 0;
        /// 99th percentile of the twin.
        twin_p99_us: f64 => "twin p99", 0;
        /// Median of the slices' ratios of the medians.
        p50_over_twin: f64 => "p50 ÷", 2;
        /// Median of the slices' ratios of the 99th percentiles.
        p99_over_twin: f64 => "p99 ÷", 2;
        /// Slices per server.
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
        true => (QUICK, Duration::from_millis(300)),
        false => (options.slices, options.slice),
    };
    let (_, ours) = ours();
    let wants = |name: &str| name == ours || name == "twin";
    let runner = Runner::start(&options.runner, &Plan::small(&wants, options.quick))?;
    let pair = |name: &str| runner.servers.iter().find(|server| server.server == name);
    let (Some(phalanx), Some(twin)) = (pair("phalanx"), pair("twin")) else {
        return Err(Error::NoServers);
    };
    let full = |server| runner.capacity(server, slice, FULL);
    let capacity = full(phalanx)?.min(full(twin)?);
    let (measured, partial) = partial::measure_each(&LOADS, slices, |load, seed| {
        eprintln!("load {load}, slice {seed} of {slices}");
        let rate = Some(capacity * load);
        let timeout = Duration::from_secs(5);
        let shot = Shot { rate, ..Shot::closed(options.connections, seed, timeout) };
        Ok([measure(&runner, phalanx, slice, shot)?, measure(&runner, twin, slice, shot)?])
    })?;
    let row = |(load, pairs): (f64, Vec<_>)| Row::new(load, capacity * load, &pairs);
    let rows: Vec<Row> = LOADS.into_iter().zip(measured).map(row).collect();
    let worst = |of: fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    Ok(Report {
        p50_over_twin: worst(|row| row.p50_over_twin),
        p99_over_twin: worst(|row| row.p99_over_twin),
        rows,
        capacity,
        driver: phalanx.driver,
        partial,
        hardware_events: runner.events(),
        machine: runner.machine.clone(),
        quick: options.quick,
    })
}

/// Latencies of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    p50: f64,
    p99: f64,
    noisy: bool,
}

fn measure(runner: &Runner, server: &Server, slice: Duration, shot: Shot) -> Result<Slice, Error> {
    let (report, noisy) = runner.slice(server, slice, shot)?;
    if report.status.success != report.completed || report.errors.total() > 0 {
        let why = format!("not all requests were served: {:?} {:?}", report.status, report.errors);
        return Err(Error::Load { name: server.name.clone(), why });
    }
    Ok(Slice { p50: report.latency.p50_us, p99: report.latency.p99_us, noisy })
}

impl Row {
    /// A row from pairs of a slice of Phalanx and one of the twin.
    fn new(load: f64, rate: f64, pairs: &[[Slice; 2]]) -> Self {
        // Disturbed slices count only if there are no others.
        let quiet: Vec<_> = pairs.iter().filter(|pair| !pair[0].noisy && !pair[1].noisy).collect();
        let kept = if quiet.is_empty() { pairs.iter().collect() } else { quiet };
        let each = |figure: &dyn Fn(&[Slice; 2]) -> f64| {
            kept.iter().map(|pair| figure(pair)).collect::<Vec<_>>()
        };
        let of = |figure: &dyn Fn(&[Slice; 2]) -> f64| median(&each(figure));
        Self {
            load,
            rate,
            phalanx_p50_us: of(&|pair| pair[0].p50),
            phalanx_p99_us: of(&|pair| pair[0].p99),
            twin_p50_us: of(&|pair| pair[1].p50),
            twin_p99_us: of(&|pair| pair[1].p99),
            p50_over_twin: of(&|pair| pair[0].p50 / pair[1].p50.max(1e-3)),
            p99_over_twin: of(&|pair| pair[0].p99 / pair[1].p99.max(1e-3)),
            slices: pairs.len(),
            noisy_slices: pairs.iter().filter(|pair| pair[0].noisy || pair[1].noisy).count(),
            spread: spread([
                ("phalanx_p50_us", each(&|pair| pair[0].p50)),
                ("twin_p50_us", each(&|pair| pair[1].p50)),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_use_paired_slices() {
        let slice = |p50, p99, noisy| Slice { p50, p99, noisy };
        let pairs = [
            [slice(10.0, 30.0, false), slice(20.0, 20.0, false)],
            [slice(900.0, 900.0, true), slice(1.0, 1.0, false)],
            [slice(30.0, 60.0, false), slice(20.0, 20.0, false)],
        ];
        let row = Row::new(0.05, 100.0, &pairs);
        assert_eq!((row.p50_over_twin, row.p99_over_twin), (1.0, 2.25));
        assert_eq!((row.slices, row.noisy_slices), (3, 1));
    }
}
