//! `phalanx-bench cluster`: three brokers over NATS compared with one broker.
//!
//! [`Options`] describes the method. Read `case` (the comparisons), `servers` (the processes), `takeover`, and
//! `report`. The load is that of [`broker`](super::broker).

mod case;
mod options;
mod report;
mod servers;
mod takeover;

use crate::error::Error;
use crate::measure::machine::Machine;
use crate::measure::partial::measure_each;
use crate::measure::run::Run;
use crate::system::cores::Bound;
use crate::system::interrupt::install_signal_handlers;
use case::Case;
use servers::Servers;

pub use options::Options;
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
    let (cores, processors) = options.runner.cores()?;
    let machine = Machine::here(processors, &cores);
    phalanx::runtime::raise_open_files();
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let servers = Servers::start(&options, directory.path(), &cores.server, processors)?;
    // Keep this process off the servers' cores.
    let _bound = Bound::to(&cores.load)?;
    let (measured, partial) = measure_each(&Case::ALL, options.rounds, |case, round| {
        eprintln!("{case:?}, round {round} of {}", options.rounds);
        case.measure(&servers, &cores, &options)
    })?;
    let rows = Case::ALL.iter().zip(&measured).flat_map(|(case, rounds)| case.rows(rounds));
    let report =
        Report { rows: rows.collect(), nats: servers.version.clone(), payload: options.payload };
    Ok(Run::new(report, machine, partial, options.quick))
}
