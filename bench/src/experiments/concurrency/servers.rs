//! The real web server with increasing numbers of connections, compared with its variants, its twin and nginx: processor
//! time, and misses of simulated caches.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Options;
use crate::error::Error;
use crate::measure::{Misses, Rounds as _, maximum, measure_each, minimum, record};
use crate::runner::{
    ANSWER_ALL, Plan, Runner, Server, ServerSpec, Shot, Slice, ours, serves_all, slice,
};

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
        /// `phalanx`, `twin`, `nginx`, or one of [`VARIANTS`].
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
        /// `phalanx`, `twin`, `nginx`, or one of [`VARIANTS`].
        server: &'static str => "server", 0;
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        each: Misses, flatten;
        /// Second-level misses over those of the first variant with as many connections, if that has any.
        l2_over_unmodified: Option<f64> => "L2 over all, general", 2;
    }
}

/// Variants of `phalanx web` for Figure 7 of the TUX paper: the name in rows, and the flags. A cohort has all connections
/// that are ready, or as many as fit a budget; I/O buffers come from the general allocator, or from the pool.
const VARIANTS: [(&str, &[&str]); 4] = [
    (UNMODIFIED, &["--unbounded-cohorts", "--unpooled-buffers"]),
    ("phalanx, all, pool", &["--unbounded-cohorts"]),
    ("phalanx, budget, general", &["--unbounded-cohorts", "--memory-budget", "--unpooled-buffers"]),
    (MODIFIED, &["--unbounded-cohorts", "--memory-budget"]),
];
const UNMODIFIED: &str = "phalanx, all, general";
pub(super) const MODIFIED: &str = "phalanx, budget, pool";
/// The size of the simulated second level, for the budget.
const SIMULATED_CACHE: &str = "--l2-cache-size=1M";

/// The measured servers: the name in rows, and those of the server and of the simulated one, which is on the driver that
/// valgrind supports.
fn servers() -> [(&'static str, String, &'static str); 3] {
    let same = |name: &'static str| (name, name.to_owned(), name);
    [("phalanx", ours().1, "phalanx-poll"), same("twin"), same("nginx")]
}

/// The simulated servers: the name in rows, the server, and additional flags.
fn simulated() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    let servers = servers().map(|(name, _, simulated)| (name, simulated, &[][..]));
    VARIANTS.map(|(name, flags)| (name, "phalanx-poll", flags)).into_iter().chain(servers)
}

/// The arguments of `phalanx web`.
fn arguments(flags: &[&'static str]) -> Vec<&'static str> {
    ANSWER_ALL.iter().chain(flags).copied().collect()
}

/// Processor time and throughput. A server that starves more than a tenth of its connections has no row.
pub(super) fn times(options: &Options) -> Result<Vec<WebRow>, Error> {
    let (in_flight, rounds, _) = options.plan();
    let servers = servers();
    let wants = |name: &str| servers.iter().any(|(_, server, _)| server == name);
    let mut runner = Runner::start(&options.runner, &Plan::small(&wants, options.quick))?;
    for (name, flags) in VARIANTS {
        let spec = runner.web(ours().0, &arguments(flags));
        runner.add_spec(ServerSpec { server: name, ..spec })?;
    }
    let slice = if options.quick { slice::QUICK } else { SLICE };
    let title = |connections: &usize| format!("servers with {connections} connections");
    let shot = |connections: &usize, round| shot(options, *connections, round);
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
        levels.flat_map(|level| simulated().map(move |server| (level, server))).collect();
    let (rows, _) = measure_each(&settings, 1, |(connections, (server, name, flags)), _| {
        eprintln!("{server}, {connections} connections, under valgrind");
        let arguments = [arguments(flags), vec![SIMULATED_CACHE]].concat();
        let plan = Plan { arguments: &arguments, ..plan };
        let each = match runner.simulated(&plan, name, shot(options, *connections, 1), SECONDS) {
            // It is not installed.
            Err(Error::NoServers) => return Ok(None),
            each => each?,
        };
        let (connections, each) = (*connections, each.into());
        Ok(Some(WebMissRow { server, connections, each, l2_over_unmodified: None }))
    })?;
    Ok(normalised(rows.into_iter().flatten().flatten().collect()))
}

/// Sets each row's ratio to the first variant.
fn normalised(mut rows: Vec<WebMissRow>) -> Vec<WebMissRow> {
    let unmodified = rows.iter().filter(|row| row.server == UNMODIFIED);
    let unmodified: BTreeMap<_, _> =
        unmodified.map(|row| (row.connections, row.each.l2())).collect();
    for row in &mut rows {
        let unmodified = unmodified.get(&row.connections).filter(|l2| **l2 >= 1.0);
        row.l2_over_unmodified = unmodified.map(|unmodified| row.each.l2() / unmodified);
    }
    rows
}

fn shot(options: &Options, connections: usize, seed: usize) -> Shot {
    Shot { keep_alive: !options.no_keep_alive, ..Shot::closed(connections, seed, TIMEOUT) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::cachegrind::Counts;

    #[test]
    fn variants_are_compared_with_the_unmodified_server() {
        let row = |server, connections, l2_data| {
            let each =
                Counts { instructions: 9.0, i1: 9.0, d1: 9.0, l2_instructions: 0.5, l2_data };
            WebMissRow { server, connections, each: each.into(), l2_over_unmodified: None }
        };
        let rows = [
            (UNMODIFIED, 1, 0.1),
            (MODIFIED, 1, 0.1),
            (UNMODIFIED, 64, 9.5),
            (MODIFIED, 64, 4.5),
            (MODIFIED, 256, 4.5),
        ];
        let rows = normalised(rows.map(|(server, at, l2)| row(server, at, l2)).into());
        let ratios: Vec<_> = rows.iter().map(|row| row.l2_over_unmodified).collect();
        // Fewer misses than one are noise.
        assert_eq!(ratios, [None, None, Some(1.0), Some(0.5), None]);
    }

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
