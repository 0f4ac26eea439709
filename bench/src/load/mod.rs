//! `phalanx-bench load`: HTTP load from one thread, and its report.
//!
//! It is built on the runtime that it measures: one processor, and a stage whose operations are connections. Read
//! [`Options`] first, then `phases` (the phases of a run), `drive` (state shared by the connections),
//! `connection`, and `protocol` (the protocols).

mod connection;
mod drive;
pub(crate) mod exchange;
pub(crate) mod http;
mod http3;
mod in_flight;
mod options;
mod phases;
mod progress;
mod result;
pub(crate) mod workload;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::runtime::{RunError, StartContext};
use phalanx::{Graph, Runtime};

use connection::Client;
use drive::{Drive, Plan};
pub use http::requests::PathsError;
use http::requests::{Form, Requests, read_paths};
use http::tls::{Protocol, Tls};
pub use http::url::{Url, UrlError};
pub use options::Options;
use phases::{Schedule, arrive, run_phases};
pub use result::counts::{Errors, Statuses};
use result::report::Raw;
pub use result::report::{Latency, Report};
use workload::pace::{Arrivals, Pace};
use workload::visits::Visits;
pub use workload::zipf::Zipf;

/// Connections per cohort; more would exceed the cache with their kernel state.
const COHORT: usize = 64;
/// Number and size of receive buffers, large enough to receive large answers cheaply.
const RECEIVE: (u16, u32) = (64, 64 * 1024);

/// Errors of [`run`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of paths is invalid.
    #[error("{0}")]
    Paths(#[from] PathsError),
    /// A process to watch does not exist.
    #[error("cannot watch process {process}: {source}")]
    Watch {
        /// The process id.
        process: u32,
        /// The cause.
        source: io::Error,
    },
    /// The host name does not resolve.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// The host name.
        host: String,
        /// The cause.
        source: io::Error,
    },
    /// The connection was refused or timed out.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The TLS handshake failed, usually because the certificate's issuer is not trusted on this system.
    #[error("no TLS with {address}: {source}; --insecure trusts any certificate")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The runtime failed.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The run was aborted.
    #[error("the run was aborted before anything was measured")]
    Ended,
}

impl Error {
    /// Exit code of the process: 2 for bad arguments, 1 for a failed run.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Paths(_) | Error::Watch { .. } => 2,
            _ => 1,
        }
    }
}

/// Sends the load from the calling thread and one more.
///
/// # Errors
/// When no load could be sent. Errors of requests are counted in the report.
pub fn run(options: &Options) -> Result<Report, Error> {
    let url = &options.url;
    let visits = options
        .visits
        .as_deref()
        .map(|file| Visits::read(file, url, options.zipf, &options.since).map(Arc::new));
    let visits = visits.transpose()?;
    let paths = match &options.paths {
        Some(file) => read_paths(file)?,
        None => vec![url.target.clone()],
    };
    let watched = watched(&options.pids)?;
    let address =
        url.resolve().map_err(|source| Error::Resolve { host: url.host.clone(), source })?;
    phalanx::runtime::raise_open_files();
    if options.http3 {
        return http3::run(options, (address, &paths, &watched));
    }
    let timeout = options.timeout.max(Duration::from_millis(1));
    let first = std::net::TcpStream::connect_timeout(&address, timeout)
        .map_err(|source| Error::Connect { address, source })?;
    let (mut tls, mut agreed) = (None, None);
    if url.tls {
        let failed = |source| Error::Tls { address, source };
        let protocol = if options.http2 { Protocol::Http2 } else { Protocol::Http1 };
        let with = Tls::to(&url.host, options.insecure, protocol).map_err(failed)?;
        agreed = Some(with.try_on(&first, timeout).map_err(failed)?);
        tls = Some(with);
    }
    drop(first);

    // A separate random generator makes the arrivals independent of the paths.
    let mut random = fastrand::Rng::with_seed(options.seed);
    let form = match options.http2 {
        true => Form::Two,
        false => Form::One { keep_alive: !options.no_keep_alive },
    };
    let requests = Requests::new(url, &paths, options.zipf, form);
    let requests = match options.in_order {
        true => requests.in_order_from(random.usize(..paths.len().max(1))),
        false => requests,
    };
    let plan = Plan {
        address,
        tls,
        requests,
        http2: options.http2,
        connections: options.connections,
        depth: if options.no_keep_alive { 1 } else { options.pipeline },
        keep_alive: !options.no_keep_alive,
        think: options.think,
        visits,
        arrivals: options
            .rate
            .map(|rate| Arrivals::new(Pace::new(rate, options.constant), random.fork())),
        timeout,
        finish: options.finish,
    };
    let schedule =
        Schedule { warmup: options.warmup, duration: options.duration, connect: timeout, watched };

    let (tallied, counts) = channel();
    let (measured, measurements) = channel();
    let mut graph = Graph::new();
    let conductor = graph.shared("conductor", ());
    let arrivals = graph.shared("arrivals", ());
    let connections = graph.stage("connections").max_cohort(COHORT).shared(());
    let start = |start: &StartContext| {
        let drive = Rc::new(Drive::new(plan.clone(), random.clone(), tallied.clone()));
        for _ in 0..options.connections {
            let client = Client::new(&drive);
            connections.dispatch(move |_| client.run())?;
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
            let _ = measured.send(run_phases(drive, schedule).await);
            control.drain();
        })?;
        Ok(())
    };
    let mut driver = None;
    Runtime::new()
        .processors(1)
        .driver(options.driver)
        .receive_buffers(RECEIVE.0, RECEIVE.1)
        .shutdown_timeout(options.finish + timeout + Duration::from_secs(1))
        .run_with_ready(graph, start, |up| driver = Some(up.driver))?;
    let measured = measurements.try_recv().map_err(|_| Error::Ended)?;
    let (counts, backlog) = counts.try_recv().map_err(|_| Error::Ended)?;
    let mut report = Report::new(options, &driver.ok_or(Error::Ended)?.to_string());
    report.tls = agreed;
    report.fill(Raw { counts, backlog, measured }, options.objective);
    Ok(report)
}

/// These processes and their descendants, each once.
fn watched(pids: &[u32]) -> Result<Vec<u32>, Error> {
    let mut watched = Vec::new();
    for &process in pids {
        let family = crate::system::procfs::family(process);
        watched.extend(family.map_err(|source| Error::Watch { process, source })?);
    }
    // A child may have been named in addition to its parent.
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
