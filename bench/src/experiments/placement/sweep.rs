//! The paper's figures: each load under each setting, in closed loop.
//!
//! In the paper the settings are the frequencies of cores; here they are the number of active workers and the batching
//! delay.

use phalanx::runtime::Setting;

use crate::error::Error;
use crate::measure::{Rounds as _, Run, Sample, measure_arms, record, slice_counts};
use crate::runner::{Shot, Slice};

use super::settings::{CONNECTIONS, FileLoad, PAPER};
use super::settings::{processors, settings, start};
use super::{Options, REQUEST_TIMEOUT, Report};

record! {
    /// A load under one setting; medians of the slices.
    pub(crate) struct Row, fn new(load: &'static str, setting: Setting, seen: &[Slice]) {
        /// The size of the files.
        load: &'static str => "files", 0;
        /// Active workers.
        active: usize => "active", 0 = setting.active;
        /// The same as text, for the legend of a plot.
        workers: String
            = format!("{} active worker{}", setting.active, if setting.active == 1 { "" } else { "s" });
        /// The batching delay in microseconds.
        delay_us: f64 => "delay µs", 0 = setting.coalesce_ns as f64 / 1e3;
        /// Requests per second.
        rps: f64 => "requests/s", 0 = seen.each(Slice::rps);
        /// The same over that of the fastest setting.
        of_fastest: f64 => "of fastest", 2 = 1.0;
        /// Received megabytes per second.
        mb_per_second: f64 => "MB/s", 1 = seen.each(|slice| slice.rps() * slice.bytes() / 1e6);
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2 = seen.each(Slice::cpu_us);
        /// The same over that of the cheapest setting.
        of_cheapest: f64 => "of cheapest", 2 = 1.0;
        /// 99th percentile of the latency in microseconds.
        p99_us: f64 => "p99 µs", 0 = seen.median(Slice::p99_us);
        sample: Sample, flatten = slice_counts(seen);
    }
}

pub(super) fn measure(options: &Options, report: &mut Run<Report>) -> Result<(), Error> {
    let settings = settings(processors(options)?);
    let runner = start(options, &settings)?;
    let loads = if options.quick { &PAPER[..1] } else { &PAPER[..] };
    let title = |load: &FileLoad| format!("sweep: {}", load.name);
    let turns = (runner.servers.len(), options.slices);
    let (measured, partial) = measure_arms(loads, title, turns, |load, server, seed| {
        load.select(runner.site())?;
        let shot = Shot::closed(CONNECTIONS, seed, REQUEST_TIMEOUT);
        runner.right_slice(server, options.slice, shot)
    })?;
    for (load, seen) in loads.iter().zip(measured) {
        let rows = settings.iter().zip(&seen);
        let mut rows: Vec<_> =
            rows.map(|(setting, of)| Row::new(load.name, *setting, of)).collect();
        let fastest = rows.iter().map(|row| row.rps).fold(0.0, f64::max);
        let cheapest = rows.iter().map(|row| row.cpu_us_per_request).fold(f64::MAX, f64::min);
        for row in &mut rows {
            row.of_fastest = row.rps / fastest;
            row.of_cheapest = row.cpu_us_per_request / cheapest;
        }
        report.figures.sweep.extend(rows);
    }
    report.partial = partial;
    report.measured_on(&runner);
    Ok(())
}
