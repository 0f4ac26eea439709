//! `phalanx-bench light`: latency at light load.
//!
//! At light load the latency of the 2002 paper's staged server was almost 20 times that of the threaded one
//! (§5.1, Figure 6). The paper names no cause; its idle processors slept for growing intervals (§4.1.2). The
//! latency of an answer is a wake-up and the work, so this measures the time that a processor adds between the
//! two.

use std::time::Duration;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Rounds as _, Run, Sample, measure_arms, record, slice_counts, undisturbed};
use crate::runner::{Plan, Runner, RunnerOptions, Shot, Slice, ours};
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
/// server. Both servers run concurrently on one core; the load on another core visits them in turn, in short slices
/// with the same arrivals. Latency counts from the intended start. Ratios are taken slice by slice; figures are
/// their medians. A slice in which other processes used a core is repeated.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number(1..=20_000))]
    pub(crate) connections: usize,

    /// Slices per server and load
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = number(1..=1000))]
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
    /// The report of `phalanx-bench light`.
    pub(crate) struct Report, fn new(rows: Vec<Row>, capacity: f64, driver: Option<&'static str>) where {
        let worst = |of: fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    } {
        /// One per load.
        rows: Vec<Row> | "latency of small files at shares of the capacity, in µs", 0;
        /// The largest `p50_over_twin` of the rows.
        p50_over_twin: f64 => "p50 over the twin, the worst load", 2 = worst(|row| row.p50_over_twin);
        /// The largest `p99_over_twin` of the rows.
        p99_over_twin: f64 => "p99 over the twin, the worst load", 2 = worst(|row| row.p99_over_twin);
        /// Requests per second of the slower server in closed loop.
        capacity: f64 => "requests/s of the slower server in closed loop", 0;
        /// The driver of Phalanx.
        driver: Option<&'static str>;
    }
}

record! {
    /// Both servers under one load. Latencies are in microseconds, medians of the slices.
    pub(crate) struct Row, fn new(load: f64, rate: f64, phalanx: &[Slice], twin: &[Slice]) where {
        let pairs: Vec<(&Slice, &Slice)> = phalanx.iter().zip(twin).collect();
        let kept = undisturbed(&pairs);
    } {
        /// Share of the capacity.
        load: f64 => "load", 2;
        /// Requests offered per second.
        rate: f64 => "requests/s", 0;
        /// Median latency of Phalanx.
        phalanx_p50_us: f64 => "p50", 0 = kept.each(|pair| pair.0.p50_us());
        /// 99th percentile of Phalanx.
        phalanx_p99_us: f64 => "p99", 0 = kept.median(|pair| pair.0.p99_us());
        /// Median latency of the twin.
        twin_p50_us: f64 => "twin p50", 0 = kept.each(|pair| pair.1.p50_us());
        /// 99th percentile of the twin.
        twin_p99_us: f64 => "twin p99", 0 = kept.median(|pair| pair.1.p99_us());
        /// Median of the slices' ratios of the medians.
        p50_over_twin: f64 => "p50 ÷", 2 = kept.median(|pair| pair.0.p50_us() / pair.1.p50_us().max(1e-3));
        /// Median of the slices' ratios of the 99th percentiles.
        p99_over_twin: f64 => "p99 ÷", 2 = kept.median(|pair| pair.0.p99_us() / pair.1.p99_us().max(1e-3));
        sample: Sample, flatten = slice_counts(&pairs);
    }
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
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
    let title = |load: &f64| format!("load {load}");
    let (measured, partial) = measure_arms(&LOADS, title, (2, slices), |load, server, seed| {
        let rate = Some(capacity * load);
        let timeout = Duration::from_secs(5);
        let shot = Shot { rate, ..Shot::closed(options.connections, seed, timeout) };
        let server = [phalanx, twin][server];
        let slice = runner.slice(server, slice, shot)?.of_right_answers(server)?;
        match slice.report.errors.total() {
            0 => Ok(slice),
            count => Err(Error::load(&server.name, format!("{count} requests were not served"))),
        }
    })?;
    let row =
        |(load, seen): (f64, Vec<Vec<Slice>>)| Row::new(load, capacity * load, &seen[0], &seen[1]);
    let rows: Vec<Row> = LOADS.into_iter().zip(measured).map(row).collect();
    let report = Report::new(rows, capacity, phalanx.driver);
    Ok(runner.report(report, partial, options.quick))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_use_paired_slices() {
        let slice = |(p50_us, p99_us, noisy)| {
            let mut slice = Slice { noisy, ..Slice::example() };
            (slice.report.latency.p50_us, slice.report.latency.p99_us) = (p50_us, p99_us);
            slice
        };
        let phalanx = [(10.0, 30.0, false), (900.0, 900.0, true), (30.0, 60.0, false)].map(slice);
        let twin = [(20.0, 20.0, false), (1.0, 1.0, false), (20.0, 20.0, false)].map(slice);
        let row = Row::new(0.05, 100.0, &phalanx, &twin);
        assert_eq!((row.p50_over_twin, row.p99_over_twin), (1.0, 2.25));
        assert_eq!((row.sample.slices, row.sample.noisy_slices), (3, 1));
    }
}
