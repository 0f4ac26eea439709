//! `phalanx bench web`: the web server beside the floor, its threaded twin, nginx and lighttpd.
//!
//! How it measures is in [`Options`]; why, in `CONTRIBUTING.md` under "Reporting a figure". Read
//! `lineup` (who takes part), `server` (a process under measurement), `slice`, `noise` and `report`.

pub mod arena;
mod config;
pub(crate) mod cores;
pub(crate) mod lineup;
mod machine;
pub(crate) mod noise;
mod options;
mod report;
pub(crate) mod server;
pub(crate) mod site;
pub(crate) mod slice;
mod table;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use machine::Machine;
pub use options::Options;
pub use report::{Ratios, Report, Row};

use cores::Cores;
use noise::Moment;
use report::{judged, ratios};
use server::Server;
use site::Site;
use slice::{Figures, Load};

/// How often a slice that was disturbed is repeated, before it is kept as it is.
const REPEATS: usize = 2;
/// What a slice takes beside its load: the process, the connections, the readings.
const OVERHEAD: Duration = Duration::from_millis(150);
/// For what a server still has to do after a slice.
const SETTLE: Duration = Duration::from_millis(30);

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
    #[error("--only leaves nobody to be measured; there are phalanx, floor, twin, nginx, lighttpd")]
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

fn interrupted() -> Result<(), Error> {
    match interruption().load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// Measures. Progress goes to stderr. Handles SIGINT and SIGTERM from here on.
///
/// # Errors
/// When something cannot be measured; no process is left behind then either.
pub fn run(options: &Options) -> Result<Report, Error> {
    heed_signals()?;
    let cores = Cores::choose(options.server_core, options.load_core).map_err(Error::Io)?;
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let machine = Machine::here(allowed, cores);
    phalanx::raise_open_files();
    let phalanx = match &options.phalanx {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(Error::Io)?,
    };
    let directory =
        tempfile::Builder::new().prefix("phalanx-bench-").tempdir().map_err(Error::Io)?;
    let site = Site::make(directory.path()).map_err(Error::Io)?;
    let (recipes, peers) =
        lineup::lineup(&|name| options.wants(name), &[], &phalanx, directory.path(), &site)
            .map_err(Error::Io)?;
    if recipes.is_empty() {
        return Err(Error::Nobody);
    }
    let (connections, slices, slice) = options.plan();
    let estimate = (slice + slice / 10 + SETTLE + OVERHEAD)
        * (connections.len() * slices * recipes.len()) as u32;
    eprintln!(
        "{} servers, {slices} slices of {} s for each of {connections:?} connections: about {}; \
         more if others use the cores",
        recipes.len(),
        slice.as_secs_f64(),
        duration(estimate),
    );
    let start = |recipe| Server::start(recipe, cores.server, directory.path(), &site);
    let servers = recipes.into_iter().map(start).collect::<Result<Vec<_>, Error>>()?;
    let load = Load { phalanx: &phalanx, directory: directory.path(), site: &site, slice };
    let bench = Bench { cores, load, servers, check_noise: !options.quick };
    let rows = bench.rows(&connections, slices)?;
    let ratios = ratios(&rows);
    Ok(Report {
        phalanx_over_nginx: judged(&ratios, |ratios| ratios.phalanx_over_nginx, false),
        phalanx_over_floor: judged(&ratios, |ratios| ratios.phalanx_over_floor, false),
        twin_over_phalanx: judged(&ratios, |ratios| ratios.twin_over_phalanx, true),
        rows,
        ratios,
        machine,
        peers,
        quick: options.quick,
    })
}

/// Seconds or minutes.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{:.0} min", seconds as f64 / 60.0),
    }
}

/// Everything that is up.
struct Bench<'a> {
    cores: Cores,
    load: Load<'a>,
    servers: Vec<Server>,
    check_noise: bool,
}

impl Bench<'_> {
    fn rows(&self, connections: &[usize], slices: usize) -> Result<Vec<Row>, Error> {
        let all: Vec<u32> =
            self.servers.iter().flat_map(|server| &server.family).copied().collect();
        // Those that disturb us may go on for ever.
        let mut repeats = connections.len() * slices * self.servers.len();
        let mut rows = Vec::new();
        // What this process does itself is not to disturb the servers.
        cores::bind(self.cores.load).map_err(Error::Io)?;
        for &connections in connections {
            let mut figures: Vec<Vec<Figures>> = self.servers.iter().map(|_| Vec::new()).collect();
            for slice in 0..slices {
                eprintln!("{connections} connections, slice {} of {slices}", slice + 1);
                for (server, figures) in self.servers.iter().zip(&mut figures) {
                    let seed = slice + 1;
                    figures.push(self.slice(server, connections, seed, &all, &mut repeats)?);
                }
            }
            let row = |(server, figures): (&Server, &Vec<Figures>)| {
                Row::new(server.server, server.driver, connections, figures)
            };
            rows.extend(self.servers.iter().zip(&figures).map(row));
        }
        Ok(rows)
    }

    /// A slice, repeated while others disturb it.
    fn slice(
        &self,
        server: &Server,
        connections: usize,
        seed: usize,
        all: &[u32],
        repeats: &mut usize,
    ) -> Result<Figures, Error> {
        let mut left = REPEATS;
        loop {
            std::thread::sleep(SETTLE);
            let before = Moment::take(self.cores, all).map_err(Error::Io)?;
            let mut figures = self.load.send(server, connections, seed)?;
            let after = Moment::take(self.cores, all).map_err(Error::Io)?;
            let foreign = before.foreign_until(&after, self.cores);
            let disturbed = foreign > noise::TOLERATED;
            figures.noisy = self.check_noise && disturbed;
            // A short slice may fail for want of a core; that says nothing about the server.
            let again = figures.noisy || (disturbed && figures.failed > 0);
            if !again || left == 0 || *repeats == 0 {
                return Ok(figures);
            }
            eprintln!("  {}: others used {:.0} % of a core; again", server.name, foreign * 100.0);
            left -= 1;
            *repeats -= 1;
        }
    }
}
