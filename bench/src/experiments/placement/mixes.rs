//! The choice by a profile that `phalanx profile` has measured.

use std::path::Path;

use phalanx::runtime::Setting;

use crate::error::Error;
use crate::measure::{
    Rounds as _, Run, Sample, SliceCounts, measure_each, measure_setting, record, slice_counts,
};
use crate::runner::{Runner, Slice};

use super::page::{Page, Pages};
use super::profile::{Offered, add_guided, prepare, shot};
use super::settings::{FileLoad, PROFILED, UNSEEN};
use super::settings::{processors, settings};
use super::{Options, Report};

/// The largest 99th percentile of a good setting, over that of all workers active.
const MAX_P99: f64 = 1.15;
/// Slices for which the server with the profile is loaded before each measured one. It has had no traffic while the others
/// were loaded, so that it rests, and then has to recognise the mix.
const RESUMED_SLICES: u32 = 2;

record! {
    /// A mix of traffic; medians of the slices.
    pub(crate) struct Row, fn new(
        offered: &Offered,
        page: &Page,
        begin: u64,
        settings: &[Setting],
        seen: &[Vec<Slice>],
        resumed: &[Slice],
    ) where {
        // The slices of each setting, and at last those of the server with the profile. `resumed` are its slices before them.
        let (guided, all) = (&seen[settings.len()], &seen[0]);
        let cheapest = best(&seen[..settings.len()]);
        let decisions: Vec<_> = page.since(begin).collect();
        let told = decisions.iter().find(|decision| decision.reason == "recognised");
        let known = told.and_then(|decision| decision.mix()).or_else(|| page.mix());
        let reasons: Vec<&str> = decisions.iter().map(|decision| &*decision.reason).collect();
    } {
        /// The files.
        mix: &'static str => "mix", 0 = offered.load.name;
        /// Whether the profile has it.
        profiled: bool => "profiled", 0 = offered.is_profiled();
        /// Requests per second.
        rate: f64 => "requests/s", 0 = offered.rate;
        /// The mix that the server has recognised.
        recognised: Option<String> => "recognised", 0 = known.map(str::to_owned);
        /// Seconds until then.
        recognised_s: Option<f64> => "after s", 1 = told.map(|decision| decision.seconds_since(begin));
        /// The setting in force at the end.
        setting: String => "setting", 0 = page.setting.clone();
        /// The decisions of the server.
        decisions: String => "decisions", 0 = reasons.join(" ");
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2 = guided.median(Slice::cpu_us);
        /// The setting that takes the least, with a 99th percentile of at most 1.15 of that of all workers active.
        best: String => "best setting", 0 = settings[cheapest].to_string();
        /// Median of the slices' ratios to it.
        cpu_over_best: f64 => "of best", 2 = guided.over(&seen[cheapest], Slice::cpu_us);
        /// The same of the time before each slice, after a silence.
        resumed_over_best: f64 => "resumed", 2 = resumed.over(&seen[cheapest], Slice::cpu_us);
        /// The same as `cpu_over_best`, to all workers active.
        cpu_over_all: f64 => "of all", 2 = guided.over(all, Slice::cpu_us);
        /// Median of the slices' ratios of the 99th percentile to all workers active.
        p99_over_all: f64 => "p99 of all", 2 = guided.over(all, Slice::p99_us);
        sample: Sample, flatten = SliceCounts {
            noisy_slices: seen.iter().flatten().filter(|slice| slice.noisy).count(),
            ..slice_counts(guided)
        };
    }
}

pub(super) fn measure(
    options: &Options,
    profile: &Path,
    report: &mut Run<Report>,
) -> Result<(), Error> {
    let is_wanted = |load: &&FileLoad| {
        options.mix.is_empty() || options.mix.iter().any(|name| name == load.name)
    };
    let all: Vec<FileLoad> = PROFILED.iter().chain(&UNSEEN).filter(is_wanted).copied().collect();
    if all.is_empty() {
        let names: Vec<&str> = PROFILED.iter().chain(&UNSEEN).map(|load| load.name).collect();
        return Err(Error::Process(format!("no mix has this name; they are {}", names.join(", "))));
    }
    let settings = settings(processors(options)?);
    let (mut runner, all) = prepare(options, &settings, &all)?;
    let guided = add_guided(&mut runner, profile)?;
    let (measured, partial) = measure_each(&all, 1, |offered, _| {
        Row::measure(&runner, guided, offered, &settings, options)
    })?;
    report.figures.mixes = measured.into_iter().flatten().collect();
    report.partial = partial;
    report.measured_on(&runner);
    Ok(())
}

impl Row {
    /// Lets the last server get to know the load, and compares it with the others, each of which keeps a setting.
    fn measure(
        runner: &Runner,
        pages: Pages,
        offered: &Offered,
        settings: &[Setting],
        options: &Options,
    ) -> Result<Self, Error> {
        let Options { slices, slice, learn, .. } = *options;
        let name = offered.load.name;
        offered.load.select(runner.site())?;
        eprintln!("{name}: {:.0}/s, getting to know it", offered.rate);
        let begin = pages.placement()?.uptime_ms();
        let guided = runner.servers.last().expect("the server with the profile");
        let length = if offered.is_profiled() { learn / 4 } else { learn };
        runner.slice(guided, length, shot(offered, 0))?;
        let (mut measured, mut resumed) = (Vec::new(), Vec::new());
        let turn = |server: usize, seed| {
            if server + 1 == runner.servers.len() {
                let before = RESUMED_SLICES * slice;
                resumed.push(runner.right_slice(server, before, shot(offered, seed))?);
            }
            runner.right_slice(server, slice, shot(offered, seed))
        };
        measure_setting(name, (runner.servers.len(), slices), turn, |seen| measured = seen)?;
        Ok(Self::new(offered, &pages.placement()?, begin, settings, &measured, &resumed))
    }
}

/// The setting whose slices took the least processor time, with a good 99th percentile.
fn best(seen: &[Vec<Slice>]) -> usize {
    let p99 = |at: usize| seen[at].median(Slice::p99_us);
    let good = (0..seen.len()).filter(|at| *at == 0 || p99(*at) <= MAX_P99 * p99(0));
    let cost = |at: &usize| seen[*at].median(Slice::cpu_us);
    good.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("the peak is good")
}

impl Report {
    /// The figures of all mixes together.
    pub(super) fn sum_up(&mut self) {
        let most = |profiled| {
            let rows = self.mixes.iter().filter(|row| row.profiled == profiled);
            rows.map(|row| row.cpu_over_best).reduce(f64::max)
        };
        (self.picked_over_best, self.unseen_over_best) = (most(true), most(false));
        let is_told = |row: &&Row| row.profiled && row.recognised.as_deref() == Some(row.mix);
        let told = self.mixes.iter().filter(is_told).count();
        self.told_apart = self.mixes.iter().any(|row| row.profiled).then_some(told);
        // Without a figure if one was not undone.
        let undone: Option<Vec<f64>> = self.planted.iter().map(|row| row.undone_s).collect();
        self.undone_s = undone.and_then(|undone| undone.into_iter().reduce(f64::max));
    }
}
