//! `phalanx-bench figure7`: instructions, misses and cycles per request of a staged and a threaded web server.
//!
//! The 2002 paper's Figure 7 (§5.1) shows cycles per instruction and misses of the second-level cache for both
//! servers. Virtual machines have no hardware counters for them. Here instructions and misses are counted by
//! cachegrind, and cycles by the time-stamp counter.

mod cycles;
mod options;
mod report;

use std::time::Duration;

use crate::error::Error;
use crate::measure::stats::median;
use crate::runner::cachegrind::{each_request, twin, web};
use crate::runner::server::Server;
use crate::runner::slice::Shot;
use crate::runner::{Plan, Runner};
use crate::system::procfs::user_and_system;

pub use options::Options;
pub use report::{Report, Row};

/// Maximum response time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Lengths of the two loads under valgrind, in seconds; their difference is counted.
const SECONDS: [u32; 2] = [1, 5];

/// Figures of a slice, per request.
struct Shown {
    /// Cycles of processor time, including the kernel.
    all: f64,
    /// Cycles outside the kernel.
    own: f64,
}

/// Runs the benchmark. Progress goes to stderr. SIGINT and SIGTERM end it from here on.
///
/// # Errors
/// When a measurement fails, for example without valgrind; all child processes are ended.
pub fn run(options: &Options) -> Result<Report, Error> {
    let (slices, slice) = match options.quick {
        true => (1, Duration::from_millis(300)),
        false => (options.slices, options.slice),
    };
    // The driver that also runs under valgrind.
    let wants = |name: &str| name == "phalanx-poll" || name == "twin";
    let runner = Runner::start(&options.runner, &Plan::small(&wants, options.quick))?;
    let per_us = cycles::per_microsecond();
    let mut measured = Vec::new();
    for &connections in &options.connections {
        let mut shown: Vec<Vec<Shown>> = runner.servers.iter().map(|_| Vec::new()).collect();
        for seed in 1..=slices {
            eprintln!("{connections} connections, slice {seed} of {slices}");
            for (server, shown) in runner.servers.iter().zip(&mut shown) {
                let shot = Shot::closed(connections, seed, REQUEST_TIMEOUT);
                shown.push(one(&runner, server, slice, shot, per_us)?);
            }
        }
        for (server, shown) in runner.servers.iter().zip(&shown) {
            let middle =
                |of: fn(&Shown) -> f64| median(&shown.iter().map(of).collect::<Vec<f64>>());
            let shown = Shown { all: middle(|shown| shown.all), own: middle(|shown| shown.own) };
            measured.push((server.server, connections, shown));
        }
    }
    // Simulation is insensitive to noise, and its servers are separate processes.
    let seconds = if options.quick { [1, 2] } else { SECONDS };
    let mut rows = Vec::new();
    for (server, connections, shown) in measured {
        eprintln!("{server}, {connections} connections, under valgrind");
        let site = runner.site();
        let line = match server {
            "twin" => twin(site)?,
            _ => web(runner.phalanx(), site),
        };
        let each = each_request(&line, site, connections, seconds);
        rows.push(Row::new(server, connections, &shown, each?));
        crate::system::interrupt::interrupted()?;
    }
    Ok(Report::new(rows, per_us, runner.machine.clone(), options.quick))
}

fn one(
    runner: &Runner,
    server: &Server,
    slice: Duration,
    shot: Shot,
    per_us: f64,
) -> Result<Shown, Error> {
    let times = || user_and_system(&server.process.family).map_err(Error::Io);
    let before = times()?;
    let (load, _) = runner.slice(server, slice, shot)?;
    let after = times()?;
    let all = load.server_cpu_us_per_request.unwrap_or(f64::NAN) * per_us;
    let (user, system) = (after.0 - before.0, after.1 - before.1);
    Ok(Shown { all, own: all * user / (user + system).max(f64::MIN_POSITIVE) })
}
