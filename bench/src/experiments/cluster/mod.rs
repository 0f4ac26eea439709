//! `phalanx-bench cluster`: three brokers over NATS compared with one broker.
//!
//! [`Options`] describes the method. Read `case` (the comparisons), `rows`, `servers` (the processes), `takeover`,
//! `killed`, and `report`. The load is that of [`broker`](super::broker).

mod case;
mod killed;
mod options;
mod report;
mod rows;
mod servers;
mod takeover;

use crate::error::Error;
use crate::experiments::broker::server::Home;
use crate::measure::{Machine, Run, measure_each, measure_more};
use crate::system::{Bound, install_signal_handlers};
use case::Case;
use killed::{Killed, Times};
use servers::{Servers, version};

pub(crate) use options::{Options, Part};
use report::{Failed, Report, Row};

/// Measures the cases. One that fails is reported, and does not end the run.
pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
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
    let mut failed: Vec<Failed> = Vec::new();
    let (measured, mut partial) = measure_each(&cases, options.rounds, |case, round| {
        let name = format!("{case:?}");
        if failed.iter().any(|failed| failed.case == name) {
            return Ok(None);
        }
        eprintln!("{name}, round {round} of {}", options.rounds);
        // Processes that are not measured do not run beside.
        running.take_if(|servers| servers.state != case.state());
        let servers =
            running.take().map_or_else(|| Servers::start(case.state(), &options, home), Ok);
        let measured = servers.and_then(|servers| {
            let measured = case.measure(&servers, &cores, &options)?;
            running = Some(servers);
            Ok(measured)
        });
        Failed::keep(&mut failed, name, measured)
    })?;
    drop(running);
    let mut rows: Vec<Row> = Vec::new();
    for (case, rounds) in cases.iter().zip(measured) {
        rows.extend(case.rows(&rounds.into_iter().flatten().collect::<Vec<_>>()));
    }
    if partial.is_none() && options.has(Part::Killed) {
        let cases = Killed::all(options.quick);
        // The kinds take turns.
        let kills = cases.repeat(options.kills);
        let times;
        (times, partial) = measure_more(&kills, |killed| {
            let measured = killed.measure(&options, home, &cores);
            Ok((*killed, Failed::keep(&mut failed, killed.to_string(), measured)?))
        })?;
        for killed in cases {
            let own = times.iter().filter(|(of, _)| *of == killed);
            let own: Vec<&Times> = own.filter_map(|(_, times)| times.as_ref()).collect();
            rows.extend(killed.rows(&own));
            failed.extend(killed.failed(&own));
        }
    }
    let report = Report { rows, failed, nats, payload: options.payload };
    Ok(Run::new(report, machine, partial, options.quick))
}
