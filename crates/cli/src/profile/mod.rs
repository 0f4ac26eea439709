//! `phalanx profile`: measures which setting of a program suits which traffic.
//!
//! | file | content |
//! |---|---|
//! | `program` | the measured program: start, indicators, stop |
//! | `load` | the user's load, and the p99 that it prints |
//! | `search` | which settings are measured, and how often |
//! | `progress` | the progress bar |

mod load;
mod program;
mod progress;
mod search;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use phalanx::runtime::{Measured, Mix, Point, ProfileFile, TrafficProfile};

use self::program::end_at_signals;
use self::search::{Load, Search, SettingValues};
use crate::stdout;
use crate::units::time;

/// The longest name of a mix that is the start of its command.
const MAX_NAME: usize = 60;

/// Measure which number of workers, polling time and coalescing time suit a load
///
/// Starts PROGRAM once for each setting, runs the load, and measures the processor time per operation and the p99: the
/// one that the load prints (wrk, oha, hey, ab, phalanx-bench, or a line such as `p99 1.2 ms`), or else the p99 of the
/// waits in the program. A p99 without a unit is taken for milliseconds; settings are compared by ratios. A run that
/// fails is repeated once. After each round the worse half of the settings is dropped. The resulting file contains the
/// best settings for each load, for `phalanx web --profile FILE` or `phalanx broker --profile FILE`.
///
/// PROGRAM is a Phalanx server: phalanx web, phalanx broker, or a program that calls `Runtime::profiled`.
#[derive(Args)]
pub(crate) struct Profile {
    /// Command that generates the load, run by the shell; it must end by itself after at least 3 seconds. Give --load
    /// once for each traffic mix.
    #[arg(long, value_name = "CMD", required = true)]
    load: Vec<String>,

    /// Name of a traffic mix; give --name once for each --load, in the same order. The default is the start of the
    /// command.
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,

    /// File to write.
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,

    /// Rounds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,

    /// Numbers of active workers to measure; by default 1, 2, 4, … and all.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    active: Vec<usize>,

    /// Polling times to measure; by default 0 and the program's default.
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = spin)]
    spin: Vec<Duration>,

    /// Batching times to measure; by default the program's default, 200us and 1ms.
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = batch_delay)]
    batch_delay: Vec<Duration>,

    /// Longest time for the program to start.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = start)]
    start_timeout: Duration,

    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", required = true)]
    program: Vec<OsString>,
}

fn spin(text: &str) -> Result<Duration, String> {
    time(text, Duration::ZERO).and_then(|time| at_most(time, Duration::from_secs(1)))
}

fn batch_delay(text: &str) -> Result<Duration, String> {
    time(text, Duration::ZERO).and_then(|time| at_most(time, Duration::from_millis(10)))
}

fn start(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(1))
}

fn at_most(time: Duration, max: Duration) -> Result<Duration, String> {
    if time <= max { Ok(time) } else { Err(format!("expected at most {max:?}")) }
}

impl Profile {
    pub(crate) fn run(self) -> ExitCode {
        match self.measure() {
            Ok(code) => code,
            Err(error) => {
                stdout::complain(format_args!("phalanx profile: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self) -> Result<ExitCode, String> {
        // If `out` is a symbolic link, its target is replaced.
        let out = fs::canonicalize(&self.out).unwrap_or_else(|_| self.out.clone());
        let write_error =
            |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", out.display());
        // Checked first, because the measurement takes several minutes.
        check_writable(&out).map_err(|error| write_error(&error))?;
        let values = SettingValues {
            active: self.active.clone(),
            spin: self.spin.clone(),
            coalesce: self.batch_delay.clone(),
        };
        let search = Search {
            program: &self.program,
            loads: &self.loads()?,
            rounds: self.rounds,
            start_timeout: self.start_timeout,
        };
        end_at_signals().map_err(|error| format!("cannot handle signals: {error}"))?;
        let (profile, driver) = search.run(&values)?;
        // The table is printed first, because it would be lost if the file could not be written.
        let printed = stdout::print(table(&profile));
        let file = ProfileFile::new(&profile, &driver);
        file.write(&out).map_err(|error| write_error(&error))?;
        stdout::print(format_args!("written to {}\n", self.out.display()));
        Ok(printed)
    }

    /// The loads with their names.
    fn loads(&self) -> Result<Vec<Load<'_>>, String> {
        let (names, loads) = (self.name.len(), self.load.len());
        if names > loads {
            return Err(format!(
                "there are {names} names and {loads} loads; give --name once for each --load"
            ));
        }
        let names = self.name.iter().map(Some).chain(std::iter::repeat(None));
        let loads = self.load.iter().zip(names).map(|(command, name)| Load {
            name: name.cloned().unwrap_or_else(|| command.chars().take(MAX_NAME).collect()),
            command,
        });
        Ok(loads.collect())
    }
}

/// Creates and removes the file that [`ProfileFile::write`] renames to `out`.
fn check_writable(out: &Path) -> io::Result<()> {
    if out.exists() && !out.is_file() {
        return Err(io::Error::other("it exists and is not a regular file"));
    }
    let mut new = out.as_os_str().to_owned();
    new.push(".new");
    // The file may belong to another program, or to an earlier run that was killed.
    let exists = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            io::Error::other(format!("{} exists; remove it", new.display()))
        }
        _ => error,
    };
    fs::File::create_new(&new).map_err(exists)?;
    fs::remove_file(&new)
}

/// The profile as a table with the peak and the Pareto set of each mix. The chosen setting has a mark.
fn table(profile: &TrafficProfile) -> String {
    let mut text = String::new();
    for mix in &profile.mixes {
        text += &format!("{}\n", mix.name);
        text += "    active  spin µs  batch µs   µs each   p99 µs  of all workers\n";
        let is_peak = |point: &Point| point.setting == mix.peak.setting;
        let peak = [&mix.peak].into_iter().filter(|_| !mix.points.iter().any(is_peak));
        for point in peak.chain(&mix.points) {
            let mark = if point.setting == mix.choice().setting { '*' } else { ' ' };
            let Measured { cost_ns, p99_ns } = point.measured;
            text += &format!(
                "  {mark} {:>6} {:>8.0} {:>9.0} {:>9.2} {:>8.0} {:>15.2}\n",
                point.setting.active,
                point.setting.spin_ns as f64 / 1e3,
                point.setting.coalesce_ns as f64 / 1e3,
                cost_ns / 1e3,
                p99_ns / 1e3,
                cost_ns / mix.peak.measured.cost_ns,
            );
        }
        text += &summary(mix);
    }
    text
}

fn summary(mix: &Mix) -> String {
    let choice = mix.choice();
    if choice.setting == mix.peak.setting {
        return "  no setting saves 5 % with a p99 of at most 1.15: all workers stay active\n"
            .to_owned();
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use phalanx::runtime::{Indicators, Setting};

    use super::*;

    #[test]
    fn the_table_has_the_setting_with_all_workers() {
        let point = |active, cost_ns, p99_ns| Point {
            setting: Setting { active, spin_ns: 0, coalesce_ns: 0 },
            indicators: Indicators::default(),
            measured: Measured { cost_ns, p99_ns },
        };
        let peak = point(8, 6e3, 2e6);
        let lines = |points: &[Point]| {
            let mix = Mix { name: "night".into(), peak, points: points.to_vec() };
            let text = table(&TrafficProfile { mixes: vec![mix] });
            text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let without = lines(&[point(4, 5.9e3, 1e6)]);
        assert!(
            without[0].starts_with("  *      8 ") && without[0].ends_with("1.00"),
            "{without:?}"
        );
        assert!(without[1].starts_with("         4 ") && without[1].ends_with("0.98"));
        assert!(without[2].contains("all workers stay active"));
        assert_eq!(lines(&[peak]).len(), 2, "once");
    }
}
