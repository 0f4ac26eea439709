//! `phalanx-bench placement`: processor time and latency of the web server by the setting of its placement.
//!
//! The paper on NewtOS (Hruby et al., SFMA 2013) measures several loads, which are sizes of files, each under many settings, and
//! proposes to choose by indicators of the traffic. It evaluates no such choice. This benchmark draws its figures for the
//! settings that exist here, and measures the choices.
//!
//! | file | part |
//! |---|---|
//! | `loads.rs` | `load`: as many active workers as the load needs, compared with all |
//! | `wake.rs` | `wake`: the time until resting processors serve a burst |
//! | `sweep.rs` | `sweep`: the paper's loads under each setting |
//! | `profile.rs` | `profile`: the profile, and servers that have one |
//! | `mixes.rs` | `mixes`: the choice by a measured profile |
//! | `planted.rs` | `planted`: a bad profile |
//! | `settings.rs` | the settings, the loads (sizes of files), and servers that keep a setting |
//! | `page.rs` | `/placement.json` of a server |

mod loads;
mod mixes;
mod page;
mod planted;
mod profile;
mod settings;
mod sweep;
mod wake;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Partial, Run, record};
use crate::runner::{Runner, RunnerOptions, slice};

/// Maximum response time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Measure the web server's processor time and latency by its placement.
///
/// load: small files over keep-alive connections in open loop, at 20 and 80 % of the closed-loop capacity, with all
/// workers active and with as many as the load needs. wake: the time until resting processors serve a burst. sweep: the
/// loads of the paper on NewtOS, files from 10 B to 10 MB, under each setting. profile: `phalanx profile` measures three
/// of these loads. mixes: a server chooses by the profile. planted: a server has a profile with a bad setting. Servers run
/// concurrently and are visited in turn. Ratios are taken slice by slice; figures are medians.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Parts to measure
    #[arg(long, value_name = "PART,…", value_delimiter = ',', value_enum,
          default_values_t = [Part::Load, Part::Wake, Part::Sweep, Part::Profile, Part::Mixes, Part::Planted])]
    pub(crate) part: Vec<Part>,

    /// The file of the profile, for the parts of several runs: written by the part profile, else read [default: a
    /// temporary one]
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,

    /// Mixes of the part mixes, as in `10 B`; by default all
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) mix: Vec<String>,

    /// Number of connections of the part load
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number(1..=15_000))]
    pub(crate) connections: usize,

    /// Slices per setting, and bursts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Length of the calm load before each slice of the part load, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = seconds)]
    pub(crate) calm: Duration,

    /// Time in which the server of the part mixes gets to know a mix that is not in its profile, in seconds; a known
    /// one gets a quarter
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) learn: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice", "calm", "learn"])]
    pub(crate) quick: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// As many active workers as the load needs.
    Load,
    /// Resting processors under a burst.
    Wake,
    /// Loads by setting.
    Sweep,
    /// A profile, for the parts after it.
    Profile,
    /// The choice by the profile.
    Mixes,
    /// A bad setting in the profile.
    Planted,
}

record! {
    /// The report of `phalanx-bench placement`.
    #[derive(Default)]
    pub(crate) struct Report {
        /// One per load and setting.
        rows: Vec<loads::Row> | "small files in open loop at shares of the capacity", 1;
        /// Requests per second of the server with all workers active in closed loop.
        capacity: Option<f64> => "requests/s in closed loop", 0;
        /// Times from the start of a burst.
        wake: Vec<wake::Row> | "resting processors under a burst", 0;
        /// One per load of the paper and setting.
        sweep: Vec<sweep::Row> | "the paper's loads in closed loop, by setting", 1;
        /// One per mix of traffic.
        mixes: Vec<mixes::Row> | "the setting chosen by the profile, in open loop", 0;
        /// The mixes of the profile that were recognised as themselves.
        told_apart: Option<usize> => "profiled mixes that were recognised", 0;
        /// The largest `cpu_over_best` of a mix in the profile.
        picked_over_best: Option<f64> => "setting chosen for a profiled mix over the best, largest", 2;
        /// The same of the other mixes.
        unseen_over_best: Option<f64> => "setting chosen for another mix over the best, largest", 2;
        /// One per mix of the profile.
        planted: Vec<planted::Row> | "settings planted in the profile", 0;
        /// The longest time until a planted setting was undone.
        undone_s: Option<f64> => "seconds until a planted setting was undone, most", 1;
        /// The driver of Phalanx.
        driver: Option<&'static str>;
    }
}

impl Run<Report> {
    /// Adds the machine and the driver of these servers.
    fn measured_on(&mut self, runner: &Runner) {
        self.figures.driver = runner.servers[0].driver;
        self.machine = Some(runner.machine.clone());
    }
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let mut options = options.clone();
    if options.quick {
        (options.slices, options.slice) = (1, slice::QUICK);
        (options.calm, options.learn) = (Duration::from_millis(100), Duration::from_millis(500));
    }
    let options = &options;
    let mut report = Run::<Report> { quick: options.quick, ..Run::default() };
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let profile = options.profile.clone().unwrap_or_else(|| directory.path().join("profile"));
    for part in &options.part {
        let measured = match part {
            Part::Load => loads::measure(options, &mut report),
            Part::Wake => wake::measure(options, &mut report),
            Part::Sweep => sweep::measure(options, &mut report),
            Part::Profile => profile::measure(options, &profile, &mut report),
            Part::Mixes | Part::Planted if !profile.exists() => {
                let reason = "there is no profile; the part profile measures it";
                Err(Error::Process(format!("{}: {reason}", profile.display())))
            }
            Part::Mixes => mixes::measure(options, &profile, &mut report),
            Part::Planted => planted::measure(options, &profile, &mut report),
        };
        match measured {
            // The parts before it are complete.
            Err(Error::Interrupted) if report.machine.is_some() => {
                let done = options.part.iter().position(|other| other == part).unwrap_or(0);
                report.partial = Some(Partial { rounds: done, of: options.part.len() });
                break;
            }
            measured => measured?,
        }
        if report.partial.is_some() {
            break;
        }
    }
    report.figures.sum_up();
    Ok(report)
}
