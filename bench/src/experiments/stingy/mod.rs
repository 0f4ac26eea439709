//! `phalanx-bench stingy`: servers in C before and after `phalanx-stingy stingify`.
//!
//! The paper on cache misses in TUX (LCN 2006) reports up to 40 % more throughput and up to 75 % fewer misses of the L2 cache.
//! This benchmark measures lighttpd, memcached and redis, which `tools/stingy/examples/servers` obtains and rewrites.

mod servers;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::load::exchange::{self, Exchange};
use crate::measure::{
    CpuTimes, Disturbed, MAX_FOREIGN_SHARE, Machine, Partial, Rounds as _, Run, Sample, Stretch,
    measure_each, record, slice_counts,
};
use crate::system::cachegrind::Counts;
use crate::system::{Bound, Cores, Process, cachegrind, install_signal_handlers, run_time};

use self::servers::{SERVERS, Server};

/// Ends the name of the folder of a rewritten server.
const REWRITTEN: &str = "-stingy";
/// Maximum number of connections to a server under valgrind.
const MAX_TRACED: usize = 4000;
/// Requests of each connection in the shorter load under valgrind.
const WARM_REQUESTS: usize = 2;
/// Requests that the longer load has in addition.
const TRACED_REQUESTS: usize = 20_000;
/// Open files of the load, and of lighttpd, in addition to two for each connection.
const SPARE_FILES: u64 = 200;

/// Measure C servers and the same servers with the memory of `phalanx-stingy`.
///
/// Both servers run concurrently on one core; the load on another core visits them in turn, in short slices, in closed
/// loop with one small request in flight on each connection. Figures are processor times per request, medians of the
/// slices; ratios are of the same pair of slices. L2 misses are simulated by cachegrind (1 MiB, user space), with up to
/// 4,000 connections, as the difference of two loads.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The folder of `obtain.sh` and `stingify.sh` in tools/stingy/examples/servers
    #[arg(long, value_name = "FOLDER", env = "PHALANX_STINGY_SERVERS")]
    pub(crate) servers: PathBuf,

    /// Measure only these servers
    #[arg(long, value_name = "SERVER,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Numbers of connections
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,9800", value_parser = number(1..=15_000))]
    pub(crate) connections: Vec<usize>,

    /// Pairs of slices
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Do not simulate caches
    #[arg(long)]
    pub(crate) no_misses: bool,

    /// Only simulate caches, which other programs do not disturb
    #[arg(long, conflicts_with_all = ["no_misses", "quick"])]
    pub(crate) no_times: bool,

    /// One short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice"])]
    pub(crate) quick: bool,
}

record! {
    /// The report of `phalanx-bench stingy`.
    pub(crate) struct Report {
        /// One per server and number of connections.
        rows: Vec<Row> | "processor time of C servers per request, in µs", 1;
        /// One per server and number of connections.
        misses: Vec<Misses> | "simulated L2 misses per request (1 MiB)", 1;
    }
}

record! {
    /// Both versions of a server with one number of connections; medians of the slices.
    pub(crate) struct Row, fn new(server: &'static str, connections: usize, slices: &[Slices]) {
        server: &'static str => "server", 0;
        connections: usize => "connections", 0;
        /// Processor time per request of the original.
        original_us: f64 => "original", 2 = slices.median(|slices| slices.us[0]);
        /// Processor time per request of the rewritten server.
        stingy_us: f64 => "stingy", 2 = slices.median(|slices| slices.us[1]);
        /// Median of the ratios of pairs.
        over_original: f64 => "of original", 3 = slices.each(|slices| slices.us[1] / slices.us[0]);
        sample: Sample, flatten = slice_counts(slices);
    }
}

record! {
    /// Simulated misses of both versions of a server.
    pub(crate) struct Misses, fn new(server: &'static str, connections: usize, before: Counts, after: Counts) {
        server: &'static str => "server", 0;
        connections: usize => "connections", 0;
        /// Misses of the original, by instructions and data.
        original: f64 => "original", 2 = before.l2();
        /// Those by instructions alone.
        original_instructions: f64 => "by instr.", 2 = before.l2_instructions;
        /// Misses of the rewritten server, by instructions and data.
        stingy: f64 => "stingy", 2 = after.l2();
        /// Those by instructions alone.
        stingy_instructions: f64 => "by instr.", 2 = after.l2_instructions;
        /// Ratio of the misses.
        over_original: f64 => "of original", 3 = after.l2() / before.l2();
        /// Ratio of the executed instructions.
        instructions_over_original: f64 => "executed", 3 = after.instructions / before.instructions;
    }
}

/// Both versions of a server.
struct Pair {
    server: &'static Server,
    folders: [PathBuf; 2],
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let needed = 2 * options.connections.iter().max().copied().unwrap_or(0) as u64 + SPARE_FILES;
    if let Some(limit) = phalanx::runtime::raise_open_files().filter(|limit| *limit < needed) {
        let reason = format!(
            "the connections to two servers need {needed} open files, and the limit is {limit}; reduce --connections, \
             or raise `ulimit -Hn`"
        );
        return Err(Error::Process(reason));
    }
    let cores = Cores::choose(&[], &[], Some(1))?;
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let pairs = pairs(options)?;
    let mut settings = Vec::new();
    for pair in &pairs {
        settings.extend(options.connections.iter().map(|connections| (pair, *connections)));
    }
    let (slices, slice) = match options.quick {
        true => (1, Duration::from_millis(200)),
        false => (options.slices, options.slice),
    };
    let mut running: Option<(&Pair, usize, [Side; 2])> = None;
    let timed = if options.no_times { &[] } else { &settings[..] };
    let (measured, mut partial) = measure_each(timed, slices, |(pair, count), seed| {
        eprintln!("{}, {count} connections, pair {seed} of {slices}", pair.server.name);
        if seed == 1 {
            // The servers before have ended.
            drop(running.take());
            let start = |folder| Side::start(pair.server, folder, *count, &cores, directory.path());
            let [original, stingy] = &pair.folders;
            running = Some((*pair, *count, [start(original)?, start(stingy)?]));
        }
        let (_, _, sides) = running.as_mut().expect("started with the first pair");
        Slices::measure(sides, slice, seed, &cores)
    })?;
    drop(running);
    let rows = settings.iter().zip(&measured);
    let rows =
        rows.map(|((pair, count), slices)| Row::new(pair.server.name, *count, slices)).collect();
    let mut report = Report { rows, misses: Vec::new() };
    if !options.no_misses && partial.is_none() {
        settings.retain(|(_, count)| *count <= MAX_TRACED);
        partial = trace_all(&settings, &mut report.misses, |(pair, count)| {
            trace(pair, *count, &cores, directory.path())
        });
    }
    Ok(Run::new(report, Machine::here(1, &cores), partial, options.quick))
}

/// Adds the simulated misses of each setting. After a signal or an error, which is printed, the results before it remain,
/// since the slices have taken minutes.
fn trace_all<S>(
    settings: &[S],
    misses: &mut Vec<Misses>,
    trace: impl Fn(&S) -> Result<Misses, Error>,
) -> Option<Partial> {
    for setting in settings {
        match trace(setting) {
            Ok(one) => misses.push(one),
            Err(error) => {
                eprintln!("the simulation of caches ends: {error}");
                return Some(Partial { rounds: misses.len(), of: settings.len() });
            }
        }
    }
    None
}

/// The servers of which both versions are built. Others are named on stderr.
fn pairs(options: &Options) -> Result<Vec<Pair>, Error> {
    let mut found = Vec::new();
    for server in &SERVERS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == server.name) {
            continue;
        }
        let folders =
            ["", REWRITTEN].map(|end| options.servers.join(format!("{}{end}", server.name)));
        match folders.iter().find(|folder| !folder.join("stingy.built").exists()) {
            Some(missing) => eprintln!("SKIPPED: {} is not built", missing.display()),
            None => found.push(Pair { server, folders }),
        }
    }
    if found.is_empty() {
        let reason = format!(
            "no server is built in {}; run tools/stingy/examples/servers/obtain.sh and stingify.sh",
            options.servers.display()
        );
        return Err(Error::Process(reason));
    }
    Ok(found)
}

/// A running server with the connections of the load.
struct Side {
    /// The version, and its connections.
    name: String,
    process: Process,
    exchange: Exchange,
}

impl Side {
    fn start(
        server: &Server,
        folder: &Path,
        connections: usize,
        cores: &Cores,
        directory: &Path,
    ) -> Result<Self, Error> {
        let process = servers::start(server, folder, connections, false, &cores.server, directory)?;
        let exchange = Exchange::connect(
            process.address,
            server.prepare,
            server.query,
            server.most,
            connections,
        )?;
        let version = folder.file_name().unwrap_or_default().display();
        let mut side =
            Self { name: format!("{version}, {connections} connections"), process, exchange };
        // Every connection has been served.
        side.exchange.run(|_| true)?;
        Ok(side)
    }

    /// The processor time per request in microseconds.
    fn measure(&mut self, slice: Duration) -> Result<f64, Error> {
        let stretch = Stretch::begin_of(&self.process.family);
        let end = Instant::now() + slice;
        let before = run_time(&self.process.family)?;
        let answered = self.exchange.run(|_| Instant::now() >= end)?;
        let after = run_time(&self.process.family)?;
        stretch.end().of(&self.name, answered);
        Ok((after - before) * 1e6 / answered as f64)
    }
}

/// A slice of each version.
struct Slices {
    us: [f64; 2],
    is_noisy: bool,
}

impl Slices {
    fn measure(
        sides: &mut [Side; 2],
        slice: Duration,
        seed: usize,
        cores: &Cores,
    ) -> Result<Self, Error> {
        let _bound = Bound::to(&cores.load)?;
        let family: Vec<u32> =
            sides.iter().flat_map(|side| side.process.family.iter().copied()).collect();
        let before = CpuTimes::take(cores, &family)?;
        let mut us = [0.0; 2];
        // The order alternates.
        for i in if seed.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            us[i] = sides[i].measure(slice)?;
        }
        let foreign = before.foreign_until(&CpuTimes::take(cores, &family)?, cores);
        Ok(Self { us, is_noisy: foreign > MAX_FOREIGN_SHARE })
    }
}

impl Disturbed for Slices {
    fn is_disturbed(&self) -> bool {
        self.is_noisy
    }
}

/// The simulated misses of both versions.
fn trace(pair: &Pair, count: usize, cores: &Cores, directory: &Path) -> Result<Misses, Error> {
    let server = pair.server;
    let counts = |folder: &PathBuf| -> Result<Counts, Error> {
        eprintln!("{}, {count} connections, cachegrind", folder.display());
        let mut loads = Vec::new();
        for more in [0, TRACED_REQUESTS] {
            let process = servers::start(server, folder, count, true, &cores.server, directory)?;
            if let Some([stop, _]) = server.pause {
                exchange::ask_once(process.address, stop)?;
            }
            let mut exchange = Exchange::connect(
                process.address,
                server.prepare,
                server.query,
                server.most,
                count,
            )?;
            let answered = exchange.run(|answered| answered >= WARM_REQUESTS * count + more)?;
            if let Some([_, resume]) = server.pause {
                // redis exits in its periodic work.
                exchange::ask_once(process.address, resume)?;
            }
            let port = process.address.port();
            let errors = directory.join(format!("{}-{port}.err", server.name));
            loads.push((cachegrind::exit(server.name, &process, &errors)?, answered));
        }
        let [(few, fewer), (many, more)] = loads[..] else { unreachable!("two loads") };
        Ok(many.beyond(few, more - fewer))
    };
    let [original, stingy] = [counts(&pair.folders[0])?, counts(&pair.folders[1])?];
    Ok(Misses::new(server.name, count, original, stingy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_the_results_before_it() {
        let one = Misses {
            server: "redis",
            connections: 64,
            original: 4.0,
            original_instructions: 1.0,
            stingy: 3.0,
            stingy_instructions: 1.0,
            over_original: 0.75,
            instructions_over_original: 1.0,
        };
        for error in [|| Error::Interrupted, || Error::NoServers] {
            let mut misses = Vec::new();
            let trace = |n: &i32| if *n == 3 { Err(error()) } else { Ok(one.clone()) };
            let partial = trace_all(&[1, 2, 3, 4], &mut misses, trace);
            assert_eq!((misses.len(), partial), (2, Some(Partial { rounds: 2, of: 4 })));
            assert_eq!(trace_all(&[5], &mut misses, trace), None);
        }
    }

    #[test]
    fn the_default_fits_the_usual_limit_of_open_files() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let Line { options } = Line::parse_from(["stingy", "--servers=x"]);
        assert!(options.connections.iter().all(|count| 2 * *count as u64 + SPARE_FILES <= 20_000));
    }
}
