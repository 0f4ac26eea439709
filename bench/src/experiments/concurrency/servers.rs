//! The real web server with increasing numbers of connections, compared with its twin and nginx: processor time, and
//! misses of simulated caches.

use std::time::Duration;

use super::options::Options;
use crate::error::Error;
use crate::measure::partial::{self, measure_each};
use crate::measure::record::record;
use crate::measure::stats::minimum;
use crate::runner::servers::ours;
use crate::runner::slice::Shot;
use crate::runner::{Plan, Runner};

/// Maximum response time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Lengths of the two loads under valgrind, in seconds. The difference of their counts is reported.
const SECONDS: [u32; 2] = [2, 8];
/// Maximum number of connections under valgrind, which needs some of the 20,000 open files.
const MAX_CONNECTIONS: usize = 5000;
/// Length of a slice, and of a slice of a quick run.
const SLICE: Duration = Duration::from_millis(800);
const QUICK: Duration = Duration::from_millis(200);

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
        /// Instructions.
        instructions: f64 => "instructions", 0;
        /// Misses of a first-level instruction cache of 32 KiB in 8 ways.
        i1_misses: f64 => "I1 misses", 1;
        /// Misses of a first-level data cache of 32 KiB in 8 ways.
        d1_misses: f64 => "D1 misses", 1;
        /// Misses of a second-level cache of 1 MiB in 8 ways, by instructions.
        l2_instruction_misses: f64 => "L2 instr.", 1;
        /// The same by data.
        l2_data_misses: f64 => "L2 data", 1;
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
    let (measured, _) = measure_each(&in_flight, rounds, |&connections, round| {
        eprintln!("servers with {connections} connections, round {round} of {rounds}");
        let slice = if options.quick { QUICK } else { SLICE };
        let one = |server| {
            let (report, _) = runner.slice(server, slice, shot(connections, round))?;
            let cpu = report.server_cpu_us_per_request;
            Ok(cpu.map(|cpu| (cpu, -report.successes_per_second())))
        };
        runner.servers.iter().map(one).collect()
    })?;
    let mut rows = Vec::new();
    for (connections, figures) in in_flight.into_iter().zip(measured) {
        for (server, figures) in runner.servers.iter().zip(partial::by_server(figures)) {
            let figures: Vec<(f64, f64)> = figures.into_iter().flatten().collect();
            if figures.is_empty() {
                continue;
            }
            let least =
                |of: fn(&(f64, f64)) -> f64| minimum(&figures.iter().map(of).collect::<Vec<_>>());
            rows.push(WebRow {
                server: server.server,
                connections,
                cpu_us_per_request: least(|figure| figure.0),
                requests_per_second: -least(|figure| figure.1),
            });
        }
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
        Ok(Some(WebMissRow {
            server,
            connections: *connections,
            instructions: each.instructions,
            i1_misses: each.i1,
            d1_misses: each.d1,
            l2_instruction_misses: each.l2_instructions,
            l2_data_misses: each.l2_data,
        }))
    })?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

fn shot(connections: usize, seed: usize) -> Shot {
    Shot::closed(connections, seed, TIMEOUT)
}
