//! `phalanx-bench cluster`: three brokers over NATS compared with one broker.
//!
//! [`Options`] describes the method. Read `case` (the comparisons), `servers` (the processes), `takeover`, `killed`, and
//! `report`. The load is that of [`broker`](super::broker).

mod case;
mod killed;
mod options;
mod report;
mod servers;
mod takeover;

use std::time::Duration;

use crate::error::Error;
use crate::measure::machine::Machine;
use crate::measure::partial::{measure_each, measure_more};
use crate::measure::run::Run;
use crate::system::cores::Bound;
use crate::system::interrupt::install_signal_handlers;
use case::Case;
use killed::Killed;
use servers::{Home, Servers, version};

pub use options::{Options, Part};
pub use report::{Report, Row};

/// Runs the benchmark. Progress goes to stderr. SIGINT and SIGTERM end it from here on; the results so far are
/// reported.
///
/// # Errors
/// When a measurement fails, nats-server is not installed, or on a signal before the first result; all child processes
/// are ended.
pub fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let options = options.settled();
    let nats = version()?;
    let (cores, processors) = options.runner.cores()?;
    let machine = Machine::here(processors, &cores);
    phalanx::runtime::raise_open_files();
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let home = Home { directory: directory.path(), cores: &cores.server, processors };
    // Keep this process off the servers' cores.
    let _bound = Bound::to(&cores.load)?;
    let mut running: Option<Servers> = None;
    let cases: Vec<_> = Case::ALL.into_iter().filter(|case| options.has(case.part())).collect();
    let (measured, mut partial) = measure_each(&cases, options.rounds, |case, round| {
        // Processes that are not measured do not run beside.
        running.take_if(|servers| servers.state != case.state());
        let servers = match running.take() {
            Some(servers) => servers,
            None => Servers::start(case.state(), &options, home)?,
        };
        eprintln!("{case:?}, round {round} of {}", options.rounds);
        case.measure(running.insert(servers), &cores, &options)
    })?;
    drop(running);
    let rows = cases.iter().zip(&measured).flat_map(|(case, rounds)| case.rows(rounds));
    let mut rows: Vec<Row> = rows.collect();
    if partial.is_none() && options.has(Part::Killed) {
        let cases = Killed::all(options.quick);
        // The sizes take turns.
        let kills = cases.repeat(options.kills);
        let times;
        (times, partial) = measure_more(&kills, |killed| killed.measure(&options, home))?;
        for (n, killed) in cases.iter().enumerate() {
            let own: Vec<Duration> = times.iter().skip(n).step_by(cases.len()).copied().collect();
            rows.extend((!own.is_empty()).then(|| killed.row(&own)));
        }
    }
    let report = Report { rows, nats, payload: options.payload };
    Ok(Run::new(report, machine, partial, options.quick))
}
