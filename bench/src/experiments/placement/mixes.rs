//! The choice by a profile that `phalanx profile` has measured.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phalanx::runtime::Setting;

use crate::error::Error;
use crate::load::Report as Seen;
use crate::measure::partial;
use crate::measure::record::record;
use crate::measure::stats::{Spread, median, spread};
use crate::runner::Runner;
use crate::runner::servers::ours;
use crate::runner::slice::Shot;
use crate::system::process::ReservedPort;
use crate::system::programs;

use super::files::{CONNECTIONS, FileLoad, PROFILED, UNSEEN};
use super::page::{Page, Pages};
use super::planted;
use super::settings::{processors, settings, start};
use super::{Lengths, Options, REQUEST_TIMEOUT, Report};

/// Offered load as a share of the capacity with all workers active.
const SHARE: f64 = 0.3;
/// The largest 99th percentile of a good setting, over that of all workers active.
const MAX_P99: f64 = 1.15;
/// The length of a load of `phalanx profile`, and its rounds.
const PROFILE_LOAD: Duration = Duration::from_secs(3);
const PROFILE_ROUNDS: usize = 3;

record! {
    /// A mix of traffic; medians of the slices.
    pub struct Row {
        /// The files.
        mix: &'static str => "mix", 0;
        /// Whether the profile has it.
        profiled: bool => "profiled", 0;
        /// Requests per second.
        rate: f64 => "requests/s", 0;
        /// The mix that the server has recognised.
        recognised: Option<String> => "recognised", 0;
        /// Seconds until then.
        recognised_s: Option<f64> => "after s", 1;
        /// The setting in force at the end.
        setting: String => "setting", 0;
        /// The decisions of the server.
        decisions: String => "decisions", 0;
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 2;
        /// The setting that takes the least, with a 99th percentile of at most 1.15 of that of all workers active.
        best: String => "best setting", 0;
        /// Median of the slices' ratios to it.
        cpu_over_best: f64 => "of best", 2;
        /// The same, to all workers active.
        cpu_over_all: f64 => "of all", 2;
        /// Median of the slices' ratios of the 99th percentile to all workers active.
        p99_over_all: f64 => "p99 of all", 2;
        /// Number of measured slices.
        slices: usize => "slices", 0;
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0;
        /// Quartiles of the slices.
        spread: Spread;
    }
}

/// A load with its rate.
pub(super) struct Offered {
    pub(super) load: FileLoad,
    rate: f64,
    profiled: bool,
}

pub(super) fn shot(offered: &Offered, seed: usize) -> Shot {
    Shot { rate: Some(offered.rate), ..Shot::closed(CONNECTIONS, seed, REQUEST_TIMEOUT) }
}

pub(super) fn measure(
    options: &Options,
    lengths: Lengths,
    report: &mut Report,
) -> Result<(), Error> {
    let (driver, _) = ours();
    let settings = settings(processors(options)?);
    let mut runner = start(options, lengths, driver, &settings)?;
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let (profile, bad) = (directory.path().join("profile"), directory.path().join("planted"));
    let loads = PROFILED.iter().map(|load| (load, true));
    let loads = loads.chain(UNSEEN.iter().map(|load| (load, false)));
    let mut all = Vec::new();
    for (load, profiled) in loads.take(if lengths.quick { 1 } else { usize::MAX }) {
        load.select(runner.site())?;
        let capacity = runner.capacity(&runner.servers[0], lengths.slice, CONNECTIONS)?;
        all.push(Offered { load: *load, rate: capacity * SHARE, profiled });
    }
    let profiled: Vec<&Offered> = all.iter().filter(|offered| offered.profiled).collect();
    make_profile(&runner, driver, lengths, &profiled, directory.path(), &profile)?;
    planted::plant(&profile, &bad)?;
    let guided = add_guided(&mut runner, driver, &profile)?;
    let (measured, partial) = partial::measure_each(&all, 1, |offered, _| {
        Row::measure(&runner, guided, offered, &settings, lengths)
    })?;
    report.mixes = measured.into_iter().flatten().collect();
    report.partial = partial;
    if partial.is_none() {
        let pages = add_guided(&mut runner, driver, &bad)?;
        for offered in profiled {
            report.planted.push(planted::measure(&runner, pages, offered, lengths)?);
        }
    }
    report.sum_up();
    report.driver = Some(driver);
    report.machine = Some(runner.machine.clone());
    Ok(())
}

/// Measures the profile with the command for operators.
fn make_profile(
    runner: &Runner,
    driver: &str,
    lengths: Lengths,
    loads: &[&Offered],
    directory: &Path,
    profile: &Path,
) -> Result<(), Error> {
    let (length, rounds) = match lengths.quick {
        true => (Duration::from_secs(1), 1),
        false => (PROFILE_LOAD, PROFILE_ROUNDS),
    };
    let port = ReservedPort::take()?.give_up();
    let mut command = Command::new(runner.phalanx());
    command.arg("profile").arg("--out").arg(profile).arg(format!("--rounds={rounds}"));
    command.args(["--spin", "20us", "--batch-delay", "0s,200us,1ms"]);
    let own = programs::own()?;
    for (number, offered) in loads.iter().enumerate() {
        let paths = directory.join(format!("paths-{number}"));
        std::fs::write(&paths, offered.load.paths())?;
        let load = format!(
            "'{}' load http://127.0.0.1:{port}/ --paths '{}' --zipf 0 --rate {} --connections {CONNECTIONS} \
             --duration {} --warmup 0.2 --json",
            own.display(),
            paths.display(),
            offered.rate,
            length.as_secs_f64(),
        );
        command.args(["--load", &load, "--name", offered.load.name]);
    }
    command.arg("--");
    if !runner.cores.are_shared() {
        // The command runs on the cores of the load, as this program does.
        let cores: Vec<String> = runner.cores.server.iter().map(usize::to_string).collect();
        command.args(["taskset", "-c", &cores.join(",")]);
    }
    command.arg(runner.phalanx()).arg("web").arg(&runner.site().root);
    command.arg(format!("--listen=http://127.0.0.1:{port}"));
    command.arg(format!("--workers={}", runner.machine.processors));
    command.args(["--driver", driver, "--max-queue-delay", "0"]);
    eprintln!("phalanx profile: {} loads, {rounds} rounds", loads.len());
    let output = command.output()?;
    match output.status.success() {
        true => {
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            Ok(())
        }
        false => Err(Error::Process(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Starts a server that chooses by a profile.
fn add_guided(runner: &mut Runner, driver: &'static str, profile: &Path) -> Result<Pages, Error> {
    let port = ReservedPort::take()?.give_up();
    let admin = format!("127.0.0.1:{port}");
    let mut spec = runner.web(driver, &["--max-queue-delay", "0", "--admin", &admin]);
    spec.command.arg("--profile").arg(profile);
    runner.add_spec(spec)?;
    Ok(Pages(port))
}

impl Row {
    /// Lets the last server get to know the load, and compares it with the others, each of which keeps a setting.
    fn measure(
        runner: &Runner,
        pages: Pages,
        offered: &Offered,
        settings: &[Setting],
        lengths: Lengths,
    ) -> Result<Self, Error> {
        let Lengths { slices, slice, learn, .. } = lengths;
        let name = offered.load.name;
        offered.load.select(runner.site())?;
        eprintln!("{name}: {:.0}/s, getting to know it", offered.rate);
        let begin = pages.placement()?.uptime_ms();
        let guided = runner.servers.last().expect("the server with the profile");
        let length = if offered.profiled { learn / 4 } else { learn };
        runner.slice(guided, length, shot(offered, 0))?;
        let mut rounds = Vec::new();
        for seed in 1..=slices {
            eprintln!("{name}: slice {seed} of {slices}");
            let measure = |server| runner.slice(server, slice, shot(offered, seed));
            rounds.push(runner.servers.iter().map(measure).collect::<Result<Vec<_>, Error>>()?);
        }
        let page = pages.placement()?;
        Ok(Self::new(offered, &page, begin, settings, &partial::by_server(rounds)))
    }

    /// `seen` are the slices of each setting, and at last those of the server with the profile.
    fn new(
        offered: &Offered,
        page: &Page,
        begin: u64,
        settings: &[Setting],
        seen: &[Vec<(Seen, bool)>],
    ) -> Self {
        let cpu = |seen: &Seen| seen.server_cpu_us_per_request.unwrap_or(f64::NAN);
        let p99 = |seen: &Seen| seen.latency.p99_us;
        let of = |server: &[(Seen, bool)], figure: &dyn Fn(&Seen) -> f64| {
            median(&server.iter().map(|(seen, _)| figure(seen)).collect::<Vec<_>>())
        };
        let (guided, all) = (&seen[settings.len()], &seen[0]);
        let most = MAX_P99 * of(all, &p99);
        let good = (0..settings.len()).filter(|at| *at == 0 || of(&seen[*at], &p99) <= most);
        let cost = |at: &usize| of(&seen[*at], &cpu);
        let best = good.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("the peak is good");
        let over = |other: &[(Seen, bool)], figure: &dyn Fn(&Seen) -> f64| {
            let pairs = guided.iter().zip(other);
            pairs.map(|((this, _), (other, _))| figure(this) / figure(other)).collect::<Vec<_>>()
        };
        let (over_best, over_all) = (over(&seen[best], &cpu), over(all, &cpu));
        let p99_over_all = over(all, &p99);
        let decisions: Vec<_> = page.since(begin).collect();
        let recognised = decisions.iter().find(|decision| decision.reason == "recognised");
        let reasons: Vec<&str> = decisions.iter().map(|decision| &*decision.reason).collect();
        let known = recognised.and_then(|decision| decision.mix()).or_else(|| page.mix());
        Self {
            mix: offered.load.name,
            profiled: offered.profiled,
            rate: offered.rate,
            recognised: known.map(str::to_owned),
            recognised_s: recognised.map(|decision| decision.seconds_since(begin)),
            setting: page.setting.clone(),
            decisions: reasons.join(" "),
            cpu_us_per_request: of(guided, &cpu),
            best: settings[best].to_string(),
            cpu_over_best: median(&over_best),
            cpu_over_all: median(&over_all),
            p99_over_all: median(&p99_over_all),
            slices: guided.len(),
            noisy_slices: seen.iter().flatten().filter(|(_, noisy)| *noisy).count(),
            spread: spread([
                ("cpu_over_best", over_best),
                ("cpu_over_all", over_all),
                ("p99_over_all", p99_over_all),
            ]),
        }
    }
}

impl Report {
    /// The figures of all mixes together.
    fn sum_up(&mut self) {
        let most = |profiled| {
            let rows = self.mixes.iter().filter(|row| row.profiled == profiled);
            rows.map(|row| row.cpu_over_best).reduce(f64::max)
        };
        (self.picked_over_best, self.unseen_over_best) = (most(true), most(false));
        let is_told = |row: &&Row| row.profiled && row.recognised.as_deref() == Some(row.mix);
        self.told_apart = Some(self.mixes.iter().filter(is_told).count());
        // Without a figure if one was not undone.
        let undone: Option<Vec<f64>> = self.planted.iter().map(|row| row.undone_s).collect();
        self.undone_s = undone.and_then(|undone| undone.into_iter().reduce(f64::max));
    }
}
