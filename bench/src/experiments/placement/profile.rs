//! The profile that `phalanx profile` measures, and servers that choose by one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phalanx::runtime::Setting;

use crate::error::Error;
use crate::measure::Run;
use crate::runner::{Runner, Shot, ours};
use crate::system::{ReservedPort, process};

use super::page::Pages;
use super::settings::{CONNECTIONS, FileLoad, PROFILED};
use super::settings::{processors, settings, start};
use super::{Options, REQUEST_TIMEOUT, Report};

/// Offered load as a share of the capacity with all workers active.
const SHARE: f64 = 0.3;
/// The length of a load of `phalanx profile`, and its rounds.
const PROFILE_LOAD: Duration = Duration::from_secs(3);
const PROFILE_ROUNDS: usize = 3;

/// A load with its rate.
pub(super) struct Offered {
    pub(super) load: FileLoad,
    pub(super) rate: f64,
}

impl Offered {
    /// Whether the profile has it.
    pub(super) fn is_profiled(&self) -> bool {
        PROFILED.iter().any(|load| load.name == self.load.name)
    }
}

/// Starts a server for each of `settings`. Returns them, and the loads with their rates, by the capacity of the first
/// server. A quick run has one load.
pub(super) fn prepare(
    options: &Options,
    settings: &[Setting],
    loads: &[FileLoad],
) -> Result<(Runner, Vec<Offered>), Error> {
    let runner = start(options, settings)?;
    let one = |load: &FileLoad| {
        load.select(runner.site())?;
        let capacity = runner.capacity(&runner.servers[0], options.slice, CONNECTIONS)?;
        Ok(Offered { load: *load, rate: capacity * SHARE })
    };
    let count = if options.quick { 1 } else { loads.len() };
    let offered = loads[..count].iter().map(one).collect::<Result<_, Error>>()?;
    Ok((runner, offered))
}

/// The setting with all workers active.
pub(super) fn peak(options: &Options) -> Result<Setting, Error> {
    Ok(settings(processors(options)?)[0])
}

pub(super) fn shot(offered: &Offered, seed: usize) -> Shot {
    Shot { rate: Some(offered.rate), ..Shot::closed(CONNECTIONS, seed, REQUEST_TIMEOUT) }
}

/// Measures the profile and writes it to a file.
pub(super) fn measure(
    options: &Options,
    profile: &Path,
    report: &mut Run<Report>,
) -> Result<(), Error> {
    let (runner, loads) = prepare(options, &[peak(options)?], &PROFILED)?;
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    make(&runner, options, &loads, directory.path(), profile)?;
    report.measured_on(&runner);
    Ok(())
}

/// Measures the profile with the command for operators.
fn make(
    runner: &Runner,
    options: &Options,
    loads: &[Offered],
    directory: &Path,
    profile: &Path,
) -> Result<(), Error> {
    let (length, rounds) = match options.quick {
        true => (Duration::from_secs(1), 1),
        false => (PROFILE_LOAD, PROFILE_ROUNDS),
    };
    let port = ReservedPort::take()?.give_up();
    let mut command = Command::new(runner.phalanx());
    command.arg("profile").arg("--out").arg(profile).arg(format!("--rounds={rounds}"));
    command.args(["--spin", "20us", "--batch-delay", "0s,200us,1ms"]);
    let own = process::own()?;
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
    command.args(["--driver", ours().0, "--max-queue-delay", "0"]);
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
pub(super) fn add_guided(runner: &mut Runner, profile: &Path) -> Result<Pages, Error> {
    let port = ReservedPort::take()?.give_up();
    let admin = format!("127.0.0.1:{port}");
    let mut spec = runner.web(ours().0, &["--max-queue-delay", "0", "--admin", &admin]);
    spec.command.arg("--profile").arg(profile);
    runner.add_spec(spec)?;
    Ok(Pages(port))
}
