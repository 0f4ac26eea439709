//! As many active workers as the load needs, compared with all of them.

use crate::error::Error;
use crate::measure::{Rounds as _, Run, Sample, measure_arms, record, slice_counts};
use crate::runner::{Plan, Runner, Shot, Slice, ours};

use super::{Options, REQUEST_TIMEOUT, Report};

/// Offered loads as shares of the capacity: a calm server, and a burst of four times that load.
const LOADS: [f64; 2] = [CALM, 4.0 * CALM];
const CALM: f64 = 0.2;
/// The settings; the others are compared with the first.
const PLACEMENTS: [&str; 2] = ["off", "on"];

record! {
    /// One setting under one load; medians of the slices.
    pub(crate) struct Row, fn new(load: f64, placement: &'static str, seen: &[Slice], off: &[Slice]) {
        /// Share of the capacity.
        load: f64 => "load", 2;
        placement: &'static str => "placement", 0;
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2 = seen.median(Slice::cpu_us);
        /// Median of the slices' ratios to all workers active.
        cpu_over_off: f64 => "of off", 2 = seen.over(off, Slice::cpu_us);
        /// Median latency in microseconds.
        p50_us: f64 => "p50 µs", 0 = seen.median(Slice::p50_us);
        /// 99th percentile of the latency in microseconds.
        p99_us: f64 => "p99 µs", 0 = seen.median(Slice::p99_us);
        /// Median of the slices' ratios to all workers active.
        p99_over_off: f64 => "of off", 2 = seen.over(off, Slice::p99_us);
        sample: Sample, flatten = slice_counts(seen);
    }
}

/// Two servers, one with all workers active and one with as many as the load needs, run concurrently and are visited in
/// turn with the same arrivals. Before each slice a calm load lets the second one remove workers.
pub(super) fn measure(options: &Options, report: &mut Run<Report>) -> Result<(), Error> {
    let Options { slices, slice, calm, quick, .. } = *options;
    let (driver, ours) = ours();
    let arguments = |placement| ["--max-queue-delay", "0", "--placement", placement];
    let wants = |name: &str| name == ours;
    let all = arguments(PLACEMENTS[0]);
    let plan = Plan { arguments: &all, ..Plan::small(&wants, quick) };
    let mut runner = Runner::start(&options.runner, &plan)?;
    for placement in &PLACEMENTS[1..] {
        runner.add_web(driver, &arguments(placement))?;
    }
    let capacity = runner.capacity(&runner.servers[0], slice, options.connections)?;
    let title = |load: &f64| format!("{:.0} % of {capacity:.0}/s", load * 100.0);
    let turns = (runner.servers.len(), slices);
    let (measured, partial) = measure_arms(&LOADS, title, turns, |load, server, seed| {
        let shot = |load: f64| Shot {
            rate: Some(capacity * load),
            ..Shot::closed(options.connections, seed, REQUEST_TIMEOUT)
        };
        runner.slice(&runner.servers[server], calm, shot(CALM))?;
        runner.right_slice(server, slice, shot(*load))
    })?;
    for (load, seen) in LOADS.into_iter().zip(measured) {
        let row =
            |(placement, of): (&&'static str, &Vec<_>)| Row::new(load, placement, of, &seen[0]);
        report.figures.rows.extend(PLACEMENTS.iter().zip(&seen).map(row));
    }
    report.figures.capacity = Some(capacity);
    report.partial = partial;
    report.hardware_events.extend(runner.events());
    report.measured_on(&runner);
    Ok(())
}
