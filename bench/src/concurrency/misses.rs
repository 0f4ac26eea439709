//! Under cachegrind: misses of a simulated second-level cache for each request.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::arms::{ARMS, Allocator, Order, server};
use super::measure::serve;
use super::options::Options;
use crate::cachegrind;
use crate::load::Report as LoadReport;
use crate::web::site::Site;

/// Misses of one arm.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// In which requests go on.
    pub order: Order,
    /// What they take their memory from.
    pub allocator: Allocator,
    /// At a time.
    pub in_flight: usize,
    /// Of a second-level cache of 1 MiB in 8 ways.
    pub l2_misses_per_request: f64,
}

/// Misses of the web server.
#[derive(Clone, Debug, Serialize)]
pub struct WebMissRow {
    /// With a request each on its way.
    pub connections: usize,
    /// Of a second-level cache of 1 MiB in 8 ways; the server's, not the kernel's.
    pub l2_misses_per_request: f64,
}

/// The fewest and the most in flight, each arm.
pub(super) fn run(options: &Options) -> io::Result<Vec<MissRow>> {
    let (in_flight, ..) = options.plan();
    let mut rows = Vec::new();
    for in_flight in ends(&in_flight) {
        for (order, allocator) in ARMS {
            eprintln!("{in_flight} in flight, {order:?}, {allocator:?}, under valgrind");
            let more = in_flight.max(2048);
            let [few, many] = [in_flight, in_flight + more].map(|requests| {
                let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
                    value().map(|value| value.get_name().to_owned()).unwrap_or_default()
                };
                let cache = options.cache.unwrap_or(cachegrind::L2);
                cachegrind::run([
                    "bench".to_owned(),
                    "concurrency".to_owned(),
                    format!("--cache={cache}"),
                    format!("--walk={requests}"),
                    format!("--in-flight={in_flight}"),
                    format!("--kib={}", options.kib),
                    format!("--order={}", name(&|| order.to_possible_value())),
                    format!("--allocator={}", name(&|| allocator.to_possible_value())),
                ])
            });
            let l2_misses_per_request = many?.beyond(few?, more).l2;
            rows.push(MissRow { order, allocator, in_flight, l2_misses_per_request });
        }
    }
    Ok(rows)
}

/// The smallest and the largest.
fn ends(in_flight: &[usize]) -> Vec<usize> {
    let ends = [in_flight.iter().min(), in_flight.iter().max()];
    let mut ends: Vec<_> = ends.into_iter().flatten().copied().collect();
    ends.dedup();
    ends
}

/// Serves so many requests with `in_flight` at a time, on the cache that is simulated.
pub(crate) fn walk(options: &Options, requests: usize) {
    let arm =
        (options.order.unwrap_or(Order::Bounded), options.allocator.unwrap_or(Allocator::Pools));
    let in_flight = options.in_flight.first().copied().unwrap_or(1);
    let cache = options.cache.unwrap_or(cachegrind::L2);
    let mut server = server(arm, options.kib, 2 * in_flight, cache);
    (0..in_flight).for_each(|_| server.offer(0));
    serve(&mut *server, requests);
}

/// Seconds of load, twice; what is more in the second is counted.
const SECONDS: [u32; 2] = [2, 8];
/// Descriptors that valgrind leaves.
const MOST: usize = 1000;

/// The real web server on one processor, by the poll driver.
pub(super) fn web(options: &Options) -> io::Result<Vec<WebMissRow>> {
    let directory = tempfile::tempdir()?;
    let site = Site::make(directory.path())?;
    let phalanx = match &options.place.phalanx {
        Some(path) => path.clone(),
        None => std::env::current_exe()?,
    };
    let mut rows = Vec::new();
    for connections in ends(&options.plan().0).into_iter().map(|n| n.min(MOST)) {
        eprintln!("phalanx web, {connections} connections, under valgrind");
        let mut counts = Vec::new();
        for seconds in SECONDS {
            let mut server = cachegrind::command(&phalanx)
                .arg("web")
                .arg(&site.root)
                .args(["--driver=poll", "--processors=1", "--listen=127.0.0.1:0"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(cachegrind::missing)?;
            let mut ready = String::new();
            if let Some(out) = server.stdout.take() {
                BufReader::new(out).read_line(&mut ready)?;
            }
            let url = ready.trim().strip_prefix("listening on ").unwrap_or_default();
            let load = Command::new(&phalanx)
                .args(["load", &format!("{url}/"), &format!("--connections={connections}")])
                .arg(format!("--duration={seconds}"))
                .args(["--warmup=0", "--timeout=30", "--json", "--paths"])
                .arg(&site.paths)
                .stderr(Stdio::inherit())
                .output();
            if let Some(process) = Pid::from_raw(server.id() as i32) {
                // It is our child, and not waited for yet.
                kill_process(process, Signal::INT)?;
            }
            let mut said = String::new();
            if let Some(mut errors) = server.stderr.take() {
                errors.read_to_string(&mut said)?;
            }
            server.wait()?;
            let load: LoadReport = serde_json::from_slice(&load?.stdout)?;
            let failed = || io::Error::other(format!("valgrind said: {}", said.trim()));
            counts.push((cachegrind::read(&said).ok_or_else(failed)?, load.completed as usize));
        }
        let [(few, fewer), (many, more)] = counts[..] else { continue };
        let l2_misses_per_request = many.beyond(few, more.saturating_sub(fewer).max(1)).l2;
        rows.push(WebMissRow { connections, l2_misses_per_request });
    }
    Ok(rows)
}
