//! `phalanx bench web`: the web server beside the floor, its threaded twin, nginx and others.
//!
//! How it measures is in [`Options`]; why, in `CONTRIBUTING.md` under "Reporting a figure". Read
//! `scene` (what is asked for), `servers` and `peers` (who takes part), `server` (a process under
//! measurement), `runner` (all of them side by side), `slice`, `interference` and `report`.

mod certificate;
pub(crate) mod cores;
pub(crate) mod demands;
pub(crate) mod interference;
pub(crate) mod machine;
mod options;
mod peers;
mod report;
pub mod runner;
mod scene;
pub(crate) mod server;
pub(crate) mod servers;
pub(crate) mod site;
pub(crate) mod slice;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use machine::Machine;
pub use options::Options;
pub use report::{Growth, Missing, Ratios, Report, Row};
pub use scene::Scene;

use report::{growth, judged, missing, ratios};
use runner::{Plan, Runner};
use server::Server;
use slice::{Figures, Shot};

/// How often a slice that was disturbed is repeated, before it is kept as it is.
const MAX_REPEATS: usize = 2;
/// What a slice takes beside its load: the process, the connections, the readings.
const SLICE_OVERHEAD: Duration = Duration::from_millis(150);
/// For what a server still has to do after a slice.
const SETTLE_TIME: Duration = Duration::from_millis(30);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system said no.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// A server does not run as it should.
    #[error("{name} cannot be measured: {why}")]
    Server {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
    /// The load on a server did not end well.
    #[error("load on {name} failed: {why}")]
    Load {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// There is nobody of these names.
    #[error(
        "--only leaves nobody to be measured; there are phalanx, floor, twin, nginx, lighttpd, h2o, caddy, sws"
    )]
    Nobody,
    /// Somebody wanted it to end.
    #[error("interrupted")]
    Interrupted,
}

/// Set by the signals that ask for an end.
fn interruption() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// From now on SIGINT and SIGTERM end the run, and with it every server.
pub(crate) fn heed_signals() -> Result<(), Error> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interruption().clone()).map_err(Error::Io)?;
    }
    Ok(())
}

/// Whether somebody wants it to end.
pub(crate) fn is_interrupted() -> bool {
    interruption().load(Ordering::Relaxed)
}

/// # Errors
/// When somebody wants it to end.
pub(crate) fn interrupted() -> Result<(), Error> {
    match is_interrupted() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// The others' versions; none for those that are not installed.
pub(crate) fn peer_versions() -> BTreeMap<String, Option<String>> {
    let version = |peer: &peers::Peer| peer.find().and_then(|path| peer.version(&path));
    peers::PEERS.iter().map(|peer| (peer.name().to_owned(), version(peer))).collect()
}

/// Measures. Progress goes to stderr. Handles SIGINT and SIGTERM from here on: what was measured before them is
/// reported, and what is missing.
///
/// # Errors
/// When something cannot be measured, or a signal comes before anything was; no process is left behind then either.
pub fn run(options: &Options) -> Result<Report, Error> {
    let mut rows = Vec::new();
    let mut place = None;
    for &scene in options.scenes() {
        let wants =
            |name: &str| options.wants(name) && (scene.floor() || !name.starts_with("floor"));
        let plan = Plan {
            wants: &wants,
            arguments: scene.arguments(),
            site: &|directory| scene.site(directory, options.quick),
            check_noise: !options.quick,
            cold: scene.cold(),
            demands: scene.demands(),
        };
        let measured = Runner::start(&options.runner, &plan).and_then(|runner| {
            place = Some((runner.machine.clone(), runner.versions.clone()));
            measure(&runner, scene, options, &mut rows)
        });
        match measured {
            Err(Error::Interrupted) if !rows.is_empty() => break,
            measured => measured?,
        }
    }
    let (machine, peers) = place.ok_or(Error::Nobody)?;
    let ratios = ratios(&rows);
    Ok(Report {
        phalanx_over_nginx: judged(&ratios, |ratios| ratios.phalanx_over_nginx, false),
        phalanx_over_floor: judged(&ratios, |ratios| ratios.phalanx_over_floor, false),
        twin_over_phalanx: judged(&ratios, |ratios| ratios.twin_over_phalanx, true),
        growth: growth(&rows),
        missing: missing(options, &rows),
        rows,
        ratios,
        machine,
        peers,
        quick: options.quick,
    })
}

/// One scene: slices for each server and number of connections. `rows` has also what was measured before an end that
/// was asked for: as many slices of each server.
fn measure(
    runner: &Runner,
    scene: Scene,
    options: &Options,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let (slices, length) = options.slices();
    let connections = options.connections(scene);
    let (servers, settings) = (runner.servers.len(), connections.len());
    let estimate = (length + length / 10 + SETTLE_TIME + SLICE_OVERHEAD)
        * (settings * slices * servers) as u32;
    eprintln!(
        "{scene}: {servers} servers, {slices} slices of {} s for each of {connections:?} connections: \
         about {}; more if others use the cores",
        length.as_secs_f64(),
        duration(estimate),
    );
    for connections in connections {
        let mut figures: Vec<Vec<Figures>> = runner.servers.iter().map(|_| Vec::new()).collect();
        let mut agreed = Vec::new();
        let mut round = |seed| {
            eprintln!("{scene}, {connections} connections, slice {seed} of {slices}");
            let patience = length + Duration::from_secs(1);
            let closed = Shot::closed(connections, seed, patience);
            let shot = Shot { pipeline: scene.pipeline(), ..closed };
            let each = runner.servers.iter().map(|server| one(runner, server, length, shot));
            let (seen, tls): (Vec<_>, Vec<_>) =
                each.collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
            figures.iter_mut().zip(seen).for_each(|(figures, seen)| figures.push(seen));
            agreed = tls;
            Ok(())
        };
        let measured = (1..=slices).try_for_each(&mut round);
        let row = |((server, figures), tls): ((&Server, &Vec<Figures>), Option<String>)| {
            let row = Row::new(scene, server.server, server.driver, connections, figures);
            Row { tls, ..row }
        };
        // Nothing is agreed before a round is whole.
        rows.extend(runner.servers.iter().zip(&figures).zip(agreed).map(row));
        measured?;
    }
    Ok(())
}

/// One slice of one server: what it has shown, and over TLS what was agreed on.
fn one(
    runner: &Runner,
    server: &Server,
    length: Duration,
    shot: Shot,
) -> Result<(Figures, Option<String>), Error> {
    let (report, noisy) = runner.slice(server, length, shot)?;
    let wrong = |why| Error::Load { name: server.name.clone(), why };
    Ok((Figures::of(&report, noisy).map_err(wrong)?, report.tls))
}

/// Seconds or minutes.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{:.0} min", seconds as f64 / 60.0),
    }
}
