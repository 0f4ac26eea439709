//! `phalanx-bench axum`: one axum application on Phalanx and on tokio.
//!
//! The servers are one program (`bench/peers/axum-arms`), so that the product does not get their dependencies. All run at
//! once; the load visits them in turn, so a ratio compares two moments of the same second.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::load;
use crate::measure::partial::{self, Partial, by_server};
use crate::measure::record::record;
use crate::measure::stats::median;
use crate::system::cores::{Bound, Cores, allowed};
use crate::system::interrupt::{install_signal_handlers, interrupted};
use crate::system::process::{self, Process};

const PROGRAM: &str = "phalanx-axum-arms";
/// The servers; Phalanx is the first.
const ARMS: [&str; 3] = ["phalanx", "axum-serve", "tokio-cores"];

/// Measure an axum application on Phalanx, on axum::serve and on a tokio runtime per core.
///
/// `json` answers a small JSON object to 64 connections in closed loop; the figure is the server's processor time per
/// request. `light` has one connection; the figure is the median latency. Each is measured with one processor and with
/// all.
///
/// Build the program with `cargo xtask peers`, or name it with --program.
///
/// JSON: `rows[]` with `scene`, `processors`, `server`, `cpu_us`, `p50_us`, `per_s` (medians) and, for Phalanx over the
/// server, `cpu_over` and `p50_over` (medians of the rounds' ratios); `rounds`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The scenes
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["json", "light"])]
    pub scenes: Vec<Scene>,

    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub slice: Duration,

    /// The program with the servers [default: found in the search path]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scene {
    /// 64 connections in closed loop
    Json,
    /// One connection
    Light,
}

impl Scene {
    fn name(self) -> &'static str {
        if self == Self::Json { "json" } else { "light" }
    }

    fn connections(self) -> usize {
        if self == Self::Json { 64 } else { 1 }
    }
}

record! {
    /// The report.
    pub struct Report {
        /// Phalanx first in each scene.
        rows: Vec<Row> | "÷: Phalanx over this server", 0;
        /// Number of measured rounds of each scene.
        rounds: usize => "rounds", 0;
        /// Progress, if the run was interrupted.
        partial: Option<Partial>;
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool;
    }
}

record! {
    /// One server in one scene.
    pub struct Row {
        /// The scene.
        scene: &'static str => "scene", 0;
        /// Number of processors or threads.
        processors: usize => "processors", 0;
        /// The server.
        server: &'static str => "server", 0;
        /// Microseconds of the server's processor time per request.
        cpu_us: f64 => "cpu µs", 2;
        /// Phalanx over this server.
        cpu_over: f64 => "÷", 2;
        /// Median latency in microseconds.
        p50_us: f64 => "p50 µs", 1;
        /// Phalanx over this server.
        p50_over: f64 => "÷", 2;
        /// Answers per second.
        per_s: f64 => "requests/s", 0;
    }
}

/// Figures of one slice.
#[derive(Clone, Copy)]
struct Slice {
    cpu_us: f64,
    p50_us: f64,
    per_s: f64,
}

/// Runs the benchmark; progress goes to stderr. SIGINT and SIGTERM end it from here on; the results so far are
/// reported.
///
/// # Errors
/// When the program is missing or fails.
pub fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let path = options.program.clone().or_else(|| process::find(PROGRAM));
    let path = path.ok_or_else(|| Error::Server {
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
    let directory = tempfile::tempdir()?;
    let mut servers: Vec<Process> = Vec::new();
    let mut running = 0;
    let (figures, partial) =
        partial::measure_each(&settings, rounds, |(scene, processors), round| {
            eprintln!("{}, {processors} processors, round {round} of {rounds}", scene.name());
            // With all processors, the load shares their cores.
            let cores = Cores::choose(&[], &[], Some(1))?;
            let on = if *processors == 1 { cores.server.clone() } else { allowed()? };
            if running != *processors {
                servers.clear();
                for arm in ARMS {
                    let mut command = Command::new(&path);
                    command.args([arm, &processors.to_string()]);
                    let started =
                        Process::start(arm, command, None, &on, directory.path(), process::listens);
                    servers.push(started?);
                }
                running = *processors;
            }
            let load = if *processors == 1 { cores.load.clone() } else { allowed()? };
            let _bound = Bound::to(&load)?;
            let mut order: Vec<usize> = (0..ARMS.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            let mut taken = [None; ARMS.len()];
            for arm in order {
                taken[arm] = Some(measure(ARMS[arm], &servers[arm], *scene, slice, round)?);
            }
            Ok(taken.into_iter().flatten().collect::<Vec<_>>())
        })?;
    let rows = settings.iter().zip(figures).flat_map(|(setting, rounds)| rows(*setting, rounds));
    Ok(Report { rows: rows.collect(), rounds, partial, quick: options.quick })
}

/// One slice of load on one server.
fn measure(
    name: &str,
    server: &Process,
    scene: Scene,
    slice: Duration,
    round: usize,
) -> Result<Slice, Error> {
    interrupted()?;
    let failed = |why: String| Error::Load { name: name.to_owned(), why };
    let url = format!("http://{}/json", server.address).parse();
    let url = url.map_err(|error: load::UrlError| failed(error.to_string()))?;
    let report = load::run(&load::Options {
        connections: scene.connections(),
        duration: slice,
        warmup: slice / 5,
        seed: round as u64,
        pids: server.family.clone(),
        ..load::Options::new(url)
    });
    let report = report.map_err(|error| failed(error.to_string()))?;
    let cpu_us = report.server_cpu_us_per_request;
    Ok(Slice {
        cpu_us: cpu_us.ok_or_else(|| failed("its processor time is unknown".to_owned()))?,
        p50_us: report.latency.p50_us,
        per_s: report.requests_per_second,
    })
}

/// The rows of one scene.
fn rows((scene, processors): (Scene, usize), rounds: Vec<Vec<Slice>>) -> Vec<Row> {
    let servers = by_server(rounds);
    let row = |(own, server): (&Vec<Slice>, &'static str)| {
        let of = |figure: fn(&Slice) -> f64| median(&own.iter().map(figure).collect::<Vec<_>>());
        let over = |figure: fn(&Slice) -> f64| {
            let pairs = servers[0].iter().zip(own);
            median(&pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)).collect::<Vec<_>>())
        };
        Row {
            scene: scene.name(),
            processors,
            server,
            cpu_us: of(|slice| slice.cpu_us),
            cpu_over: over(|slice| slice.cpu_us),
            p50_us: of(|slice| slice.p50_us),
            p50_over: over(|slice| slice.p50_us),
            per_s: of(|slice| slice.per_s),
        }
    };
    servers.iter().zip(ARMS).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_phalanx_over_the_others() {
        let slice = |cpu_us, p50_us| Slice { cpu_us, p50_us, per_s: 1.0 };
        let round = |ours| vec![slice(ours, 10.0), slice(8.0, 20.0), slice(16.0, 5.0)];
        let rows = rows((Scene::Json, 2), vec![round(4.0), round(6.0), round(2.0)]);
        let over: Vec<_> =
            rows.iter().map(|row| (row.server, row.cpu_over, row.p50_over)).collect();
        assert_eq!(
            over,
            [("phalanx", 1.0, 1.0), ("axum-serve", 0.5, 0.5), ("tokio-cores", 0.25, 2.0)]
        );
    }
}
