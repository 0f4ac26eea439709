//! The real web server with increasing numbers of connections, compared with its twin and nginx: processor time, and
//! misses of simulated caches.

use std::time::Duration;

use super::options::Options;
use crate::error::Error;
use crate::measure::partial::{measure_arms, measure_each};
use crate::measure::record::record;
use crate::measure::sample::Misses;
use crate::measure::stats::{Rounds as _, maximum, minimum};
use crate::runner::servers::ours;
use crate::runner::slice::{self, Shot, Slice};
use crate::runner::{Plan, Runner};

/// Maximum response time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Lengths of the two loads under valgrind, in seconds. The difference of their counts is reported.
const SECONDS: [u32; 2] = [2, 8];
/// Maximum number of connections under valgrind, which needs some of the 20,000 open files.
const MAX_CONNECTIONS: usize = 5000;
/// Length of a slice.
const SLICE: Duration = Duration::from_millis(800);

record! {
    /// One server with a number of connections in closed loop.
    pub struct WebRow {
        /// `phalanx`, `twin` or `nginx`.
        server: &'static str => "server", 0;
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        /// Processor time per request, the minimum of the rounds.
        cpu_us_per_request: f64 => "µs each", 2;
        /// Requests per second, the maximum of the rounds.
        requests_per_second: f64 => "requests/s", 0;
    }
}

record! {
    /// Misses of one server, without the kernel.
    pub struct WebMissRow {
        /// `phalanx`, `twin` or `nginx`.
        server: &'static str => "server", 0;
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        /// Its instructions and misses.
        each: Misses, flatten;
    }
}

/// The measured servers: the name in rows, and those of the server and of the simulated one, which is on the driver that
/// valgrind supports.
fn servers() -> [(&'static str, String, &'static str); 3] {
    let same = |name: &'static str| (name, name.to_owned(), name);
    [("phalanx", ours().1, "phalanx-poll"), same("twin"), same("nginx")]
}

/// Processor time and throughput.
pub(super) fn times(options: &Options) -> Result<Vec<WebRow>, Error> {
    let (in_flight, rounds, _) = options.plan();
    let servers = servers();
    let wants = |name: &str| servers.iter().any(|(_, server, _)| server == name);
    let runner = Runner::start(&options.runner, &Plan::small(&wants, options.quick))?;
    let slice = if options.quick { slice::QUICK } else { SLICE };
    let title = |connections: &usize| format!("servers with {connections} connections");
    let turns = (runner.servers.len(), rounds);
    let (measured, _) = measure_arms(&in_flight, title, turns, |connections, server, round| {
        runner.slice(&runner.servers[server], slice, shot(*connections, round))
    })?;
    let mut rows = Vec::new();
    for (connections, seen) in in_flight.into_iter().zip(measured) {
        rows.extend(runner.servers.iter().zip(seen).map(|(server, seen)| WebRow {
            server: server.server,
            connections,
            cpu_us_per_request: minimum(&seen.each(Slice::cpu_us)),
            requests_per_second: maximum(&seen.each(|slice| slice.report.successes_per_second())),
        }));
    }
    Ok(rows)
}

/// Misses of each installed server with one processor.
pub(super) fn misses(options: &Options) -> Result<Vec<WebMissRow>, Error> {
    let Options { runner, .. } = options;
    let plan = Plan::small(&|_| true, options.quick);
    let runner = Runner::prepare(&runner.setup, runner.cores()?.0, plan.site, false)?;
    let levels = options.plan().0.into_iter().filter(|level| *level <= MAX_CONNECTIONS);
    let settings: Vec<_> =
        levels.flat_map(|level| servers().map(|server| (level, server))).collect();
    let (rows, _) = measure_each(&settings, 1, |(connections, (server, _, simulated)), _| {
        eprintln!("{server}, {connections} connections, under valgrind");
        let each = match runner.simulated(&plan, simulated, shot(*connections, 1), SECONDS) {
            // It is not installed.
            Err(Error::NoServers) => return Ok(None),
            each => each?,
        };
        Ok(Some(WebMissRow { server, connections: *connections, each: each.into() }))
    })?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

fn shot(connections: usize, seed: usize) -> Shot {
    Shot::closed(connections, seed, TIMEOUT)
}
