//! The real web server with increasing numbers of connections, compared with its twin and nginx: processor time, and
//! misses of simulated caches.

use std::time::Duration;

use super::Options;
use crate::error::Error;
use crate::measure::{Misses, Rounds as _, maximum, measure_each, minimum, record};
use crate::runner::{Plan, Runner, Server, Shot, Slice, ours, serves_all, slice};

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
    pub(crate) struct WebRow, fn new(server: &'static str, connections: usize, seen: &[Slice]) {
        /// `phalanx`, `twin` or `nginx`.
        server: &'static str => "server", 0;
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        /// Processor time per request, the minimum of the rounds.
        cpu_us_per_request: f64 => "µs each", 2 = minimum(&seen.each(Slice::cpu_us));
        /// Requests per second, the maximum of the rounds.
        requests_per_second: f64 => "requests/s", 0
            = maximum(&seen.each(|slice| slice.report.successes_per_second()));
    }
}

record! {
    /// Misses of one server, without the kernel.
    pub(crate) struct WebMissRow {
        /// `phalanx`, `twin` or `nginx`.
        server: &'static str => "server", 0;
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        each: Misses, flatten;
    }
}

/// The measured servers: the name in rows, and those of the server and of the simulated one, which is on the driver that
/// valgrind supports.
fn servers() -> [(&'static str, String, &'static str); 3] {
    let same = |name: &'static str| (name, name.to_owned(), name);
    [("phalanx", ours().1, "phalanx-poll"), same("twin"), same("nginx")]
}

/// Processor time and throughput. A server that starves more than a tenth of its connections has no row.
pub(super) fn times(options: &Options) -> Result<Vec<WebRow>, Error> {
    let (in_flight, rounds, _) = options.plan();
    let servers = servers();
    let wants = |name: &str| servers.iter().any(|(_, server, _)| server == name);
    let runner = Runner::start(&options.runner, &Plan::small(&wants, options.quick))?;
    let slice = if options.quick { slice::QUICK } else { SLICE };
    let title = |connections: &usize| format!("servers with {connections} connections");
    let shot = |connections: &usize, round| shot(*connections, round);
    let (measured, _) = runner.slices(&in_flight, title, (rounds, slice), shot)?;
    let mut rows = Vec::new();
    for (connections, seen) in in_flight.into_iter().zip(measured) {
        let row = |(server, seen): (&Server, &Vec<_>)| row(server.server, connections, seen);
        rows.extend(runner.servers.iter().zip(&seen).filter_map(row));
    }
    Ok(rows)
}

/// The row of a server; `None` if it starves more than a tenth of its connections.
fn row(server: &'static str, connections: usize, seen: &[Slice]) -> Option<WebRow> {
    let unanswered = seen.iter().map(Slice::unanswered).sum();
    if !serves_all(unanswered, connections, seen.len()) {
        eprintln!("{server} starves {unanswered} of {connections} connections and is left out");
        return None;
    }
    Some(WebRow::new(server, connections, seen))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starves_connections_has_no_row() {
        let slice = |starved| {
            let mut slice = Slice::example();
            slice.report.starved = starved;
            slice.report.server_cpu_us_per_request = Some(7.0);
            slice
        };
        let row = |starved| row("twin", 1000, &[slice(starved), slice(0)]);
        assert!(row(200).is_some_and(|row| row.cpu_us_per_request == 7.0));
        assert!(row(201).is_none());
    }
}
