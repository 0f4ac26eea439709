//! `phalanx-bench axum`: one axum application on Phalanx and on tokio.
//!
//! The servers of the application are one program (`bench/peers/axum-arms`), those on other libraries another
//! (`bench/peers/http-arms`), so that the product does not get their dependencies. All run concurrently; the load
//! visits them in turn, so a ratio compares two moments of the same second.

mod report;
mod servers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;

use crate::arguments::{name, number, seconds};
use crate::error::Error;
use crate::load;
use crate::measure::{Machine, Run, partial};
use crate::system::cores::allowed;
use crate::system::{Bound, Cores, Process, install_signal_handlers, interrupted};

use report::{Report, Slice, rows};
use servers::Database;
use servers::Servers;

/// Measure an axum application on Phalanx, on axum::serve and on a tokio runtime per core.
///
/// `json` answers a small JSON object to 64 connections in closed loop; the figure is the server's processor time per
/// request. `select` reads a row of PostgreSQL by its key, and `insert` answers when a new row is durable, both over 64
/// connections; a figure is also the database's processor time. `axum-serve` has a pool of 32 connections to the
/// database, the others one per processor. `light` has one connection; the figure is the median latency. Each is
/// measured with one processor and with all.
///
/// In `json` and `light`, ntex, monoio (with monoio-http) and may_minihttp are shown beside them: HTTP servers with the
/// same answer, but without axum.
///
/// Build the programs with `cargo xtask peers`, or name them with --program and --others. `select` and `insert` start
/// PostgreSQL from its Debian package in a temporary folder.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The scenes
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["json", "light"])]
    pub(crate) scenes: Vec<Scene>,

    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// The program with the servers of the application [default: found in the search path]
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,

    /// The program with ntex, monoio and may_minihttp [default: found in the search path; they are left out without it]
    #[arg(long, value_name = "PATH")]
    pub(crate) others: Option<PathBuf>,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice"])]
    pub(crate) quick: bool,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scene {
    /// 64 connections in closed loop
    Json,
    /// Reads of a row in PostgreSQL
    Select,
    /// New rows in PostgreSQL, durable when they are answered
    Insert,
    /// One connection
    Light,
}

impl Scene {
    fn connections(self) -> usize {
        if self == Self::Light { 1 } else { 64 }
    }

    fn needs_database(self) -> bool {
        matches!(self, Self::Select | Self::Insert)
    }

    /// The targets of its requests, drawn alike.
    fn targets(self) -> Vec<String> {
        match self {
            Self::Json | Self::Light => vec!["/json".to_owned()],
            Self::Insert => vec!["/insert".to_owned()],
            Self::Select => (1..=10_000).map(|id| format!("/select/{id}")).collect(),
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let servers = Servers::find(options)?;
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
        database: needs_database.then(|| Database::start(&servers.program)).transpose()?,
        servers,
        slice,
        folder: tempfile::tempdir()?,
        running: None,
    };
    let (figures, partial) =
        partial::measure_each(&settings, rounds, |(scene, processors), round| {
            eprintln!("{}, {processors} processors, round {round} of {rounds}", name(scene));
            bench.round(*scene, *processors, round)
        })?;
    let rows = settings.iter().zip(figures).flat_map(|(setting, rounds)| {
        let names = bench.servers.names(setting.0);
        rows(*setting, &names, rounds)
    });
    let machine = Machine::here(all, &Cores::choose(&[], &[], Some(1))?);
    Ok(Run::new(Report { rows: rows.collect(), rounds }, machine, partial, options.quick))
}

/// The servers and their database.
struct Bench {
    servers: Servers,
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
        self.running.take_if(|(running, _)| *running != processors);
        let (_, running) = self.running.get_or_insert_with(|| (processors, Vec::new()));
        let names = self.servers.names(scene);
        let (database, folder) = (self.database.as_ref(), self.folder.path());
        for name in names.iter().skip(running.len()) {
            running.push(self.servers.start(name, processors, database, &server, folder)?);
        }
        let paths = paths(self.folder.path(), scene)?;
        let _bound = Bound::to(&load)?;
        let mut order: Vec<usize> = (0..names.len()).collect();
        if round.is_multiple_of(2) {
            order.reverse();
        }
        let mut taken = vec![None; names.len()];
        for arm in order {
            let slice = Load { scene, paths: &paths, slice: self.slice, seed: round as u64 };
            taken[arm] = Some(slice.measure(names[arm], &running[arm], database)?);
        }
        Ok(taken.into_iter().flatten().collect())
    }
}

/// Writes the file of a scene's targets.
fn paths(folder: &Path, scene: Scene) -> Result<PathBuf, Error> {
    let file = folder.join(format!("{}.paths", name(&scene)));
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
        let failed = |reason: String| Error::load(name, reason);
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
        report.add_events(&format!("{name}, {}", crate::arguments::name(&self.scene)));
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
