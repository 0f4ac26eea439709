//! Misses of a simulated second-level cache per request, under cachegrind.

use std::io;

use super::arms::{self, ARMS, Allocator, Order};
use super::measure::serve;
use super::options::Options;
use crate::measure::record::record;
use crate::runner::cachegrind as server;
use crate::runner::site::Site;
use crate::system::cachegrind;
use crate::system::programs;
use clap::ValueEnum;

record! {
    /// Misses of one arm.
    pub struct MissRow {
        /// The order in which requests advance.
        order: Order => "order", 0;
        /// The allocator of the requests' objects.
        allocator: Allocator => "memory", 0;
        /// Requests in flight.
        in_flight: usize => "in flight", 0;
        /// Misses of a second-level cache of 1 MiB in 8 ways.
        l2_misses_per_request: f64 => "misses", 1;
    }
}

record! {
    /// Misses of the web server.
    pub struct WebMissRow {
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        /// Misses of a second-level cache of 1 MiB in 8 ways, by the server without the kernel.
        l2_misses_per_request: f64 => "misses", 1;
    }
}

/// Measures each arm with the fewest and the most requests in flight.
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

/// The smallest and the largest element.
fn ends(in_flight: &[usize]) -> Vec<usize> {
    let ends = [in_flight.iter().min(), in_flight.iter().max()];
    let mut ends: Vec<_> = ends.into_iter().flatten().copied().collect();
    ends.dedup();
    ends
}

/// Serves `requests` requests with `in_flight` at a time, on the simulated cache.
pub(crate) fn walk(options: &Options, requests: usize) {
    let arm =
        (options.order.unwrap_or(Order::Bounded), options.allocator.unwrap_or(Allocator::Pools));
    let in_flight = options.in_flight.first().copied().unwrap_or(1);
    let cache = options.cache.unwrap_or(cachegrind::L2);
    let mut server = arms::server(arm, options.kib, 2 * in_flight, cache);
    (0..in_flight).for_each(|_| server.offer(0));
    serve(&mut *server, requests);
}

/// Maximum number of connections; valgrind reserves some of the descriptors.
const MAX_CONNECTIONS: usize = 1000;

/// The real web server with one worker on the poll driver.
pub(super) fn web(options: &Options) -> io::Result<Vec<WebMissRow>> {
    let directory = tempfile::tempdir()?;
    let site = Site::make(directory.path())?;
    let phalanx = programs::phalanx(options.runner.setup.phalanx.as_deref());
    let mut rows = Vec::new();
    for connections in ends(&options.plan().0).into_iter().map(|n| n.min(MAX_CONNECTIONS)) {
        eprintln!("phalanx web, {connections} connections, under valgrind");
        let each =
            server::each_request(&server::web(&phalanx, &site), &site, connections, SECONDS)?;
        rows.push(WebMissRow { connections, l2_misses_per_request: each.l2 });
    }
    Ok(rows)
}

/// Lengths of the two loads in seconds. The difference of their counts is reported.
const SECONDS: [u32; 2] = [2, 8];
