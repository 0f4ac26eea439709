//! `phalanx-bench figure6`: the web server, its threaded twin and others under the load of users.
//!
//! The 2002 paper's Figure 6 (§5.1): throughput and latency against the number of users, each of whom requests
//! pages, reads them and thinks, as SURGE models them. There, from light to heavy load, the latency of the staged
//! server grew 2.3 times and that of the threaded one 45 times.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::load::seconds;
use crate::machine::Machine;
use crate::partial::{self, Partial};
use crate::stats::{Spread, median, spread};
use crate::surge;
use crate::web::runner::{Plan, Runner, RunnerOptions};
use crate::web::server::Server;
use crate::web::servers::ours;
use crate::web::site::Site;
use crate::web::slice::Shot;

/// Cache size of the server: smaller than the site.
const CACHE: &str = "128M";
/// Maximum response time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The peers: the twin, and servers tuned for mixed sizes. Phalanx runs on its better driver.
const SERVERS: [&str; 4] = ["twin", "nginx", "lighttpd", "h2o"];

/// Measure throughput and latency against the number of users, as in the 2002 paper's Figure 6.
///
/// Users request pages of one or more files, each page over a new connection, and pause between them (SURGE, with
/// its time unit scaled by --think, so that fewer users generate as much load). The sizes of files and their
/// popularity are SURGE's too. All servers run at once on one core; the load generator on another core visits
/// them in turn. Figures are medians of the slices.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Numbers of users
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,256,512,1024,2048,4096",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=15_000))]
    pub users: Vec<usize>,

    /// Minimum pause between pages, in seconds; the mean is three times as long
    #[arg(long, value_name = "SECONDS", default_value = "0.02", value_parser = seconds)]
    pub think: Duration,

    /// Files of the site
    #[arg(long, value_name = "N", default_value_t = 8192,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub files: usize,

    /// Slices per server and number of users
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub runner: RunnerOptions,

    /// One short slice each with few users: only checks that it runs
    #[arg(long, conflicts_with_all = ["users", "files", "slices", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The report of `phalanx-bench figure6`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One per server and number of users.
    pub rows: Vec<Row>,
    /// Mean latency of each server with the most users over that with the fewest.
    pub latency_growth: BTreeMap<&'static str, f64>,
    /// The growth of the twin over that of Phalanx; above 1, the latency of Phalanx grows less.
    pub twin_growth_over_phalanx: Option<f64>,
    /// Answers per second with the most users: Phalanx over the twin.
    pub throughput_over_twin: Option<f64>,
    /// Minimum pause between pages, in seconds.
    pub think: f64,
    /// Size of the site in bytes.
    pub site_bytes: u64,
    /// The machine and cores of the measurement.
    pub machine: Machine,
    /// Progress, if the run was interrupted.
    pub partial: Option<Partial>,
    /// Whether this was a quick run, whose figures are meaningless.
    pub quick: bool,
}

/// One server with a number of users; medians of the slices.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `phalanx`, `twin`, `nginx`, `lighttpd` or `h2o`.
    pub server: &'static str,
    /// Number of users.
    pub users: usize,
    /// Answers per second.
    pub rps: f64,
    /// Mebibytes per second.
    pub mib_per_second: f64,
    /// Mean time from the intended start of a request to its last byte, in milliseconds. The first request of a
    /// page includes the connection setup.
    pub mean_ms: f64,
    /// 99th percentile of the same.
    pub p99_ms: f64,
    /// Processor time per request, in microseconds.
    pub cpu_us_per_request: f64,
    /// Share of the load's core that the load used; near 1, the load is the bottleneck.
    pub client_busy: f64,
    /// Requests without an answer, in all slices.
    pub failed: u64,
    /// Number of measured slices.
    pub slices: usize,
    /// Slices among these that were kept although other processes used the cores.
    pub noisy_slices: usize,
    /// Quartiles of the slices.
    pub spread: Spread,
}

/// Runs the benchmark. Progress goes to stderr. SIGINT and SIGTERM end it from here on; the results so far are
/// reported.
///
/// # Errors
/// When a measurement fails, or on a signal before the first result; all child processes are ended.
pub fn run(options: &Options) -> Result<Report, Error> {
    let (users, files, slices, slice) = match options.quick {
        true => (vec![16, 64], 256, 1, Duration::from_millis(300)),
        false => (options.users.clone(), options.files, options.slices, options.slice),
    };
    let (_, ours) = ours();
    let sizes = surge::sizes(files, &mut fastrand::Rng::with_seed(1));
    let wants = |name: &str| name == ours || SERVERS.contains(&name);
    let plan = Plan {
        arguments: &["--max-queue-delay", "0", "--cache", CACHE],
        site: &|directory: &Path| Site::of(directory, &sizes, 1.0),
        ..Plan::small(&wants, options.quick)
    };
    let runner = Runner::start(&options.runner, &plan)?;
    let (measured, partial) = partial::measure_each(&users, slices, |&users, seed| {
        eprintln!("{users} users, slice {seed} of {slices}");
        let shot =
            Shot { think: Some(options.think), ..Shot::closed(users, seed, REQUEST_TIMEOUT) };
        runner.servers.iter().map(|server| runner.slice(server, slice, shot)).collect()
    })?;
    let mut rows = Vec::new();
    for (users, rounds) in users.into_iter().zip(measured) {
        let reports = partial::by_server(rounds);
        let row = |(server, reports): (&Server, &Vec<_>)| Row::new(server.server, users, reports);
        rows.extend(runner.servers.iter().zip(&reports).map(row));
    }
    let site_bytes = sizes.iter().map(|size| *size as u64).sum();
    Ok(Report { partial, ..Report::new(rows, options, site_bytes, &runner) })
}

impl Row {
    fn new(server: &'static str, users: usize, reports: &[(crate::load::Report, bool)]) -> Self {
        let each = |figure: &dyn Fn(&crate::load::Report) -> f64| {
            reports.iter().map(|(report, _)| figure(report)).collect::<Vec<_>>()
        };
        let of = |figure: &dyn Fn(&crate::load::Report) -> f64| median(&each(figure));
        let mib = |report: &crate::load::Report| {
            report.bytes as f64 / report.seconds / f64::from(1 << 20)
        };
        let mean_ms = |report: &crate::load::Report| report.latency.mean_us / 1e3;
        Self {
            server,
            users,
            rps: of(&|report| report.requests_per_second),
            mib_per_second: of(&mib),
            mean_ms: of(&mean_ms),
            p99_ms: of(&|report| report.latency.p99_us / 1e3),
            cpu_us_per_request: of(&|report| report.server_cpu_us_per_request.unwrap_or(f64::NAN)),
            client_busy: of(&|report| {
                report.client_cpu_us_per_request * report.requests_per_second / 1e6
            }),
            failed: reports.iter().map(|(report, _)| report.errors.total()).sum(),
            slices: reports.len(),
            noisy_slices: reports.iter().filter(|(_, noisy)| *noisy).count(),
            spread: spread([("mib_per_second", each(&mib)), ("mean_ms", each(&mean_ms))]),
        }
    }
}

impl Report {
    fn new(rows: Vec<Row>, options: &Options, site_bytes: u64, runner: &Runner) -> Self {
        let of = |server: &str| {
            let mut rows = rows.iter().filter(|row| row.server == server);
            let few = rows.next()?;
            Some((few, rows.next_back().unwrap_or(few)))
        };
        let growth = |server| of(server).map(|(few, many)| many.mean_ms / few.mean_ms);
        let names: Vec<&'static str> = runner.servers.iter().map(|server| server.server).collect();
        let latency_growth: BTreeMap<_, _> =
            names.into_iter().filter_map(|name| Some((name, growth(name)?))).collect();
        let most = |server| of(server).map(|(_, many)| many.rps);
        let ratio = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
        Self {
            twin_growth_over_phalanx: ratio(growth("twin"), growth("phalanx")),
            throughput_over_twin: ratio(most("phalanx"), most("twin")),
            latency_growth,
            rows,
            think: options.think.as_secs_f64(),
            site_bytes,
            partial: None,
            machine: runner.machine.clone(),
            quick: options.quick,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "users who think for {} s at least; a site of {} MiB",
            self.think,
            self.site_bytes >> 20
        )?;
        let mut users = 0;
        for row in &self.rows {
            if row.users != users {
                users = row.users;
                let title = format!("{users} users");
                writeln!(
                    f,
                    "\n  {title:<12}{:>10}{:>9}{:>10}{:>10}{:>9}{:>11}",
                    "answers/s", "MiB/s", "mean ms", "p99 ms", "µs each", "load busy"
                )?;
            }
            write!(
                f,
                "  {:<12}{:>10.0}{:>9.0}{:>10.2}{:>10.2}{:>9.1}{:>10.0}%",
                row.server,
                row.rps,
                row.mib_per_second,
                row.mean_ms,
                row.p99_ms,
                row.cpu_us_per_request,
                row.client_busy * 100.0,
            )?;
            if row.failed > 0 {
                write!(f, "  {} unanswered", row.failed)?;
            }
            if row.noisy_slices > 0 {
                write!(f, "  {} of {} slices disturbed", row.noisy_slices, row.slices)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\n  mean latency with the most users over that with the fewest")?;
        for (server, growth) in &self.latency_growth {
            writeln!(f, "  {server:<12}{growth:>10.1}")?;
        }
        if let Some(partial) = self.partial {
            writeln!(f, "\n  {partial}")?;
        }
        if self.quick {
            writeln!(f, "\n  quick run: the figures are meaningless")?;
        }
        Ok(())
    }
}
