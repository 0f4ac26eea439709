//! `phalanx-bench axum`: one axum application on Phalanx and on tokio.
//!
//! The servers are one program (`bench/peers/axum-arms`), so that the product does not get their dependencies. All run at
//! once; the load visits them in turn, so a ratio compares two moments of the same second.

mod database;
mod options;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

pub use self::options::{Options, Scene};
pub use self::report::{Report, Row};

use self::database::Database;
use self::report::{Slice, rows};
use crate::error::Error;
use crate::load;
use crate::measure::machine::Machine;
use crate::measure::partial;
use crate::measure::run::Run;
use crate::system::cores::{Bound, Cores, allowed};
use crate::system::interrupt::{install_signal_handlers, interrupted};
use crate::system::process::{self, Process};

const PROGRAM: &str = "phalanx-axum-arms";
/// The servers; Phalanx is the first.
const ARMS: [&str; 3] = ["phalanx", "axum-serve", "tokio-cores"];

/// Runs the benchmark; progress goes to stderr. SIGINT and SIGTERM end it from here on; the results so far are
/// reported.
///
/// # Errors
/// When the program or the database is missing or fails.
pub fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let program = options.program.clone().or_else(|| process::find(PROGRAM));
    let program = program.ok_or_else(|| Error::Server {
        name: PROGRAM.to_owned(),
        why: "it is not here; get it by `cargo xtask peers`, or name it by --program".to_owned(),
    })?;
    let (rounds, slice) = match options.quick {
        true => (1, Duration::from_millis(200)),
        false => (options.rounds, options.slice),
    };
    let all = allowed()?.len();
    let mut settings = Vec::new();
    for processors in if all > 1 { vec![1, all] } else { vec![1] } {
        settings.extend(options.scenes.iter().map(|scene| (*scene, processors)));
    }
    let needs_database = options.scenes.iter().any(|scene| scene.needs_database());
    let mut bench = Bench {
        database: needs_database.then(|| Database::start(&program)).transpose()?,
        program,
        slice,
        folder: tempfile::tempdir()?,
        running: None,
    };
    let (figures, partial) =
        partial::measure_each(&settings, rounds, |(scene, processors), round| {
            eprintln!("{}, {processors} processors, round {round} of {rounds}", scene.name());
            bench.round(*scene, *processors, round)
        })?;
    let rows =
        settings.iter().zip(figures).flat_map(|(setting, rounds)| rows(*setting, &ARMS, rounds));
    let machine = Machine::here(all, &Cores::choose(&[], &[], Some(1))?);
    Ok(Run::new(Report { rows: rows.collect(), rounds }, machine, partial, options.quick))
}

/// The servers and their programs.
struct Bench {
    program: PathBuf,
    database: Option<Database>,
    slice: Duration,
    folder: TempDir,
    /// The servers of this number of processors.
    running: Option<(usize, Vec<Process>)>,
}

impl Bench {
    /// One slice of each server.
    fn round(
        &mut self,
        scene: Scene,
        processors: usize,
        round: usize,
    ) -> Result<Vec<Slice>, Error> {
        // With all processors, the load shares their cores.
        let cores = Cores::choose(&[], &[], Some(1))?;
        let (server, load) = match processors {
            1 => (cores.server.clone(), cores.load.clone()),
            _ => (allowed()?, allowed()?),
        };
        let servers = match self.running.take() {
            Some((running, servers)) if running == processors => servers,
            before => {
                drop(before);
                ARMS.iter()
                    .map(|arm| self.start(arm, processors, &server))
                    .collect::<Result<_, _>>()?
            }
        };
        let (_, servers) = self.running.insert((processors, servers));
        let paths = paths(self.folder.path(), scene)?;
        let _bound = Bound::to(&load)?;
        let mut order: Vec<usize> = (0..ARMS.len()).collect();
        if round.is_multiple_of(2) {
            order.reverse();
        }
        let mut taken = [None; ARMS.len()];
        for arm in order {
            let slice = Load { scene, paths: &paths, slice: self.slice, seed: round as u64 };
            taken[arm] = Some(slice.measure(ARMS[arm], &servers[arm], self.database.as_ref())?);
        }
        Ok(taken.into_iter().flatten().collect())
    }

    fn start(&self, arm: &str, processors: usize, cores: &[usize]) -> Result<Process, Error> {
        let mut command = Command::new(&self.program);
        command.args([arm, &processors.to_string()]);
        command.args(self.database.as_ref().map(Database::socket));
        Process::start(arm, command, None, cores, self.folder.path(), process::listens)
    }
}

/// Writes the file of a scene's targets.
fn paths(folder: &Path, scene: Scene) -> Result<PathBuf, Error> {
    let file = folder.join(format!("{}.paths", scene.name()));
    std::fs::write(&file, scene.targets().join("\n"))?;
    Ok(file)
}

/// A slice of load.
struct Load<'a> {
    scene: Scene,
    paths: &'a Path,
    slice: Duration,
    seed: u64,
}

impl Load<'_> {
    fn measure(
        &self,
        name: &str,
        server: &Process,
        database: Option<&Database>,
    ) -> Result<Slice, Error> {
        interrupted()?;
        let failed = |why: String| Error::Load { name: name.to_owned(), why };
        let url = format!("http://{}/", server.address).parse();
        let url = url.map_err(|error: load::UrlError| failed(error.to_string()))?;
        let database = database.filter(|_| self.scene.needs_database());
        let before = database.map(Database::run_time).transpose()?;
        let report = load::run(&load::Options {
            connections: self.scene.connections(),
            duration: self.slice,
            // The database's time is read around the run, so every request must count.
            warmup: if database.is_some() { Duration::ZERO } else { self.slice / 5 },
            paths: Some(self.paths.to_owned()),
            zipf: 0.0,
            seed: self.seed,
            pids: server.family.clone(),
            ..load::Options::new(url)
        });
        let report = report.map_err(|error| failed(error.to_string()))?;
        let after = database.map(Database::run_time).transpose()?;
        let wrong = report.completed - report.status.success + report.errors.total();
        if wrong > 0 || report.completed == 0 {
            let completed = report.completed;
            return Err(failed(format!("{wrong} of {completed} requests had no good answer")));
        }
        let each = |seconds: f64| seconds * 1e6 / report.completed as f64;
        let cpu_us = report.server_cpu_us_per_request;
        Ok(Slice {
            cpu_us: cpu_us.ok_or_else(|| failed("its processor time is unknown".to_owned()))?,
            database_us: before.zip(after).map(|(before, after)| each(after - before)),
            p50_us: report.latency.p50_us,
            per_s: report.requests_per_second,
        })
    }
}
