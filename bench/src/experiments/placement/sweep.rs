//! The paper's figures: each load under each setting, in closed loop.
//!
//! In the paper the settings are the frequencies of cores; here they are the number of active workers and the batching
//! delay.

use phalanx::runtime::Setting;

use crate::error::Error;
use crate::measure::partial::measure_arms;
use crate::measure::record::record;
use crate::measure::run::Run;
use crate::measure::sample::Sample;
use crate::measure::stats::{Rounds as _, median};
use crate::runner::slice::{Shot, Slice, sample};

use super::files::{CONNECTIONS, FileLoad, PAPER};
use super::settings::{processors, settings, start};
use super::{Lengths, Options, REQUEST_TIMEOUT, Report};

record! {
    /// A load under one setting; medians of the slices.
    pub struct Row {
        /// The size of the files.
        load: &'static str => "files", 0;
        /// Active workers.
        active: usize => "active", 0;
        /// The same as text, for the legend of a plot.
        workers: String;
        /// The batching delay in microseconds.
        delay_us: f64 => "delay µs", 0;
        /// Requests per second.
        rps: f64 => "requests/s", 0;
        /// The same over that of the fastest setting.
        of_fastest: f64 => "of fastest", 2;
        /// Received megabytes per second.
        mb_per_second: f64 => "MB/s", 1;
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2;
        /// The same over that of the cheapest setting.
        of_cheapest: f64 => "of cheapest", 2;
        /// 99th percentile of the latency in microseconds.
        p99_us: f64 => "p99 µs", 0;
        /// The slices.
        sample: Sample, flatten;
    }
}

pub(super) fn measure(
    options: &Options,
    lengths: Lengths,
    report: &mut Run<Report>,
) -> Result<(), Error> {
    let settings = settings(processors(options)?);
    let runner = start(options, lengths, &settings)?;
    let loads = if lengths.quick { &PAPER[..1] } else { &PAPER[..] };
    let title = |load: &FileLoad| format!("sweep: {}", load.name);
    let turns = (runner.servers.len(), lengths.slices);
    let (measured, partial) = measure_arms(loads, title, turns, |load, server, seed| {
        load.select(runner.site())?;
        let shot = Shot::closed(CONNECTIONS, seed, REQUEST_TIMEOUT);
        let server = &runner.servers[server];
        runner.slice(server, lengths.slice, shot)?.of_right_answers(server)
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

impl Row {
    fn new(load: &'static str, setting: Setting, seen: &[Slice]) -> Self {
        let (rps, cpu) = (seen.each(Slice::rps), seen.each(Slice::cpu_us));
        let mb = seen.each(|slice| slice.rps() * slice.bytes() / 1e6);
        let plural = if setting.active == 1 { "" } else { "s" };
        Self {
            load,
            active: setting.active,
            workers: format!("{} active worker{plural}", setting.active),
            delay_us: setting.coalesce_ns as f64 / 1e3,
            rps: median(&rps),
            of_fastest: 1.0,
            mb_per_second: median(&mb),
            cpu_us_per_request: median(&cpu),
            of_cheapest: 1.0,
            p99_us: seen.median(Slice::p99_us),
            sample: sample(
                seen,
                [("rps", rps), ("mb_per_second", mb), ("cpu_us_per_request", cpu)],
            ),
        }
    }
}
