//! `phalanx load`: HTTP load from one thread, and what became of it.
//!
//! It is built on the runtime that it measures: one processor, and a stage whose operations are
//! connections, each for its whole life. Read [`Options`] first, then `conduct` (the order of a run),
//! `drive` (what the connections share), `connection`, and `talk` (what is spoken there).

mod answers;
mod conduct;
mod connection;
mod drive;
mod flight;
mod http2;
mod human;
mod options;
mod pace;
mod progress;
mod report;
mod requests;
mod talk;
mod tally;
pub(crate) mod tls;
mod url;
mod wire;
mod zipf;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::runtime::{RunError, StartContext};
use phalanx::{Graph, Runtime};

pub use options::Options;
pub(crate) use options::seconds;
pub use report::{Latency, Report};
pub use requests::PathsError;
pub use tally::{Errors, Statuses};
pub use url::{Url, UrlError};
pub use zipf::Zipf;

use conduct::{Schedule, arrive, conduct};
use connection::Client;
use drive::{Drive, Plan};
use pace::{Arrivals, Pace};
use requests::{Form, Requests, read_paths};
use tls::Tls;

/// Connections that run one after the other: beyond this their kernel state leaves the cache.
const COHORT: usize = 64;
/// Receive buffers and their bytes: large answers are to cost the load little.
const RECEIVE: (u16, u32) = (64, 64 * 1024);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of paths is of no use.
    #[error("{0}")]
    Paths(#[from] PathsError),
    /// A process to be watched is not there.
    #[error("cannot watch process {process}: {source}")]
    Watch {
        /// Its number.
        process: u32,
        /// Why.
        source: io::Error,
    },
    /// The name has no address.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody listens there.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Hands cannot be shaken: mostly the server's certificate leads to no root that is trusted here.
    #[error("no TLS with {address}: {source}; --insecure trusts any certificate")]
    Tls {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The runtime could not be run.
    #[error("{0}")]
    Run(#[from] RunError),
    /// It was ended by force.
    #[error("the run was ended before anything was measured")]
    Ended,
}

impl Error {
    /// The process's exit code: 2 for bad arguments, 1 for a run that failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Paths(_) | Error::Watch { .. } => 2,
            _ => 1,
        }
    }
}

/// Sends the load, from the calling thread and one more.
///
/// # Errors
/// When it could not be sent at all. What goes wrong on the way is counted in the report.
pub fn run(options: &Options) -> Result<Report, Error> {
    let url = &options.url;
    let paths = match &options.paths {
        Some(file) => read_paths(file)?,
        None => vec![url.target.clone()],
    };
    let watched = watched(&options.pids)?;
    let address =
        url.resolve().map_err(|source| Error::Resolve { host: url.host.clone(), source })?;
    phalanx::runtime::raise_open_files();
    let patience = options.timeout.max(Duration::from_millis(1));
    let first = std::net::TcpStream::connect_timeout(&address, patience)
        .map_err(|source| Error::Connect { address, source })?;
    let (mut tls, mut agreed) = (None, None);
    if url.tls {
        let failed = |source| Error::Tls { address, source };
        let with = Tls::to(&url.host, options.insecure, options.http2).map_err(failed)?;
        agreed = Some(with.try_on(&first, patience).map_err(failed)?);
        tls = Some(with);
    }
    drop(first);

    // Arrivals have random numbers of their own, so that they are the same whatever the paths.
    let mut random = fastrand::Rng::with_seed(options.seed);
    let form = match options.http2 {
        true => Form::Two,
        false => Form::One { keep_alive: !options.no_keep_alive },
    };
    let plan = Plan {
        address,
        tls,
        requests: Requests::new(url, &paths, options.zipf, form),
        http2: options.http2,
        connections: options.connections,
        depth: if options.no_keep_alive { 1 } else { options.pipeline },
        keep_alive: !options.no_keep_alive,
        think: options.think,
        arrivals: options
            .rate
            .map(|rate| Arrivals::new(Pace::new(rate, options.constant), random.fork())),
        patience,
        finish: options.finish,
    };
    let schedule =
        Schedule { warmup: options.warmup, duration: options.duration, gather: patience, watched };

    let (tallied, tallies) = channel();
    let (measured, measurements) = channel();
    let mut graph = Graph::new();
    let conductor = graph.shared("conductor", ());
    let arrivals = graph.shared("arrivals", ());
    let connections = graph.stage("connections").max_cohort(COHORT).shared(());
    let start = |start: &StartContext| {
        let drive = Rc::new(Drive::new(plan.clone(), random.clone(), tallied.clone()));
        for _ in 0..options.connections {
            let client = Client::new(&drive);
            connections.dispatch(move |_| client.live())?;
        }
        if drive.plan.arrivals.is_some() {
            let drive = drive.clone();
            arrivals.dispatch(move |_| arrive(drive))?;
        }
        if let Some(bar) = progress::bar(options.warmup + options.duration) {
            let drive = drive.clone();
            conductor.dispatch(move |_| progress::show(drive, bar))?;
        }
        let (control, schedule, measured) = (start.control(), schedule.clone(), measured.clone());
        conductor.dispatch(move |_| async move {
            let _ = measured.send(conduct(drive, schedule).await);
            control.drain();
        })?;
        Ok(())
    };
    let mut driver = None;
    Runtime::new()
        .processors(1)
        .driver(options.driver)
        .pin(false)
        .receive_buffers(RECEIVE.0, RECEIVE.1)
        .drain(options.finish + patience + Duration::from_secs(1))
        .run_and(graph, start, |up| driver = Some(up.driver))?;
    let measured = measurements.try_recv().map_err(|_| Error::Ended)?;
    let (tally, backlog) = tallies.try_recv().map_err(|_| Error::Ended)?;
    let mut report = Report::new(options, driver.ok_or(Error::Ended)?);
    report.tls = agreed;
    report.fill(tally, backlog, measured, options.objective);
    Ok(report)
}

/// These processes and all that have come from them, each once.
fn watched(pids: &[u32]) -> Result<Vec<u32>, Error> {
    let mut watched = Vec::new();
    for &process in pids {
        let family = crate::procfs::family(process);
        watched.extend(family.map_err(|source| Error::Watch { process, source })?);
    }
    // A child may have been named beside its parent.
    watched.sort_unstable();
    watched.dedup();
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_watched_once() {
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let both = watched(&[std::process::id(), child.id()]).unwrap();
        let _ = (child.kill(), child.wait());
        assert_eq!(both.iter().filter(|process| **process == child.id()).count(), 1);
        assert!(matches!(watched(&[u32::MAX]), Err(Error::Watch { process: u32::MAX, .. })));
    }
}
