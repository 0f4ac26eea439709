//! A bad profile: a setting that delays each response by milliseconds and promises half the cost.

use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;
use crate::measure::{Run, measure_each, record};
use crate::runner::Runner;

use super::page::Pages;
use super::profile::{Offered, add_guided, peak, prepare, shot};
use super::settings::PROFILED;
use super::{Options, Report};

/// The batching delay of the planted setting, in microseconds: the longest one.
const DELAY_US: u64 = 10_000;

record! {
    /// A mix whose profile has a bad setting.
    pub(crate) struct Row {
        mix: &'static str => "mix", 0;
        /// The setting that was chosen first.
        chosen: Option<String> => "chosen", 0;
        /// Seconds from the start of the load until it was chosen.
        chosen_s: Option<f64> => "after s", 1;
        /// Seconds from the start of the load until it was undone.
        undone_s: Option<f64> => "undone after s", 1;
        reason: Option<String> => "because", 0;
    }
}

/// Copies a profile, and adds the bad setting to each mix.
fn plant(profile: &Path, planted: &Path) -> Result<(), Error> {
    let bad = || {
        Error::Process(format!("{}: no profile; the part profile measures one", profile.display()))
    };
    let text = std::fs::read(profile).map_err(|_| bad())?;
    let mut file: Value = serde_json::from_slice(&text).map_err(|_| bad())?;
    for mix in file["mixes"].as_array_mut().ok_or_else(bad)? {
        let mut point = mix["peak"].clone();
        point["batch_delay_us"] = json!(DELAY_US);
        for figure in ["cpu_us_per_operation", "p99_us"] {
            point[figure] = json!(point[figure].as_f64().ok_or_else(bad)? / 2.0);
        }
        mix["points"].as_array_mut().ok_or_else(bad)?.push(point);
    }
    std::fs::write(planted, file.to_string())?;
    Ok(())
}

/// Measures each mix of the profile on a server with the planted one.
pub(super) fn measure(
    options: &Options,
    profile: &Path,
    report: &mut Run<Report>,
) -> Result<(), Error> {
    let (mut runner, loads) = prepare(options, &[peak(options)?], &PROFILED)?;
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let bad = directory.path().join("planted");
    plant(profile, &bad)?;
    let pages = add_guided(&mut runner, &bad)?;
    let (rows, partial) =
        measure_each(&loads, 1, |offered, _| measure_mix(&runner, pages, offered, options))?;
    report.figures.planted = rows.into_iter().flatten().collect();
    report.partial = partial;
    report.measured_on(&runner);
    Ok(())
}

/// Loads the last server of `runner`, which has the planted profile.
fn measure_mix(
    runner: &Runner,
    pages: Pages,
    offered: &Offered,
    options: &Options,
) -> Result<Row, Error> {
    eprintln!("planted: {}", offered.load.name);
    offered.load.select(runner.site())?;
    let begin = pages.placement()?.uptime_ms();
    let server = runner.servers.last().expect("the planted server");
    // As long as it takes to recognise, to choose and to compare, with room.
    runner.slice(server, options.learn / 4, shot(offered, 1))?;
    let page = pages.placement()?;
    let planted = format!("coalesce={}", DELAY_US * 1_000);
    let is_planted = |setting: Option<&str>| setting.is_some_and(|of| of.contains(&planted));
    let mut decisions = page.since(begin);
    let chosen = decisions.find(|decision| is_planted(decision.setting()));
    let undone =
        decisions.find(|decision| ["undone", "saturated", "unknown"].contains(&&*decision.reason));
    let undone = undone.filter(|_| chosen.is_some());
    let seconds = |decision: &super::page::Decision| decision.seconds_since(begin);
    Ok(Row {
        mix: offered.load.name,
        chosen: chosen.and_then(|decision| decision.setting().map(str::to_owned)),
        chosen_s: chosen.map(seconds),
        undone_s: undone.map(seconds),
        reason: undone.map(|decision| decision.reason.clone()),
    })
}
