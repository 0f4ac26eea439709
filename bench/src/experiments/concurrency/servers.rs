//! The real web server with increasing numbers of connections, compared with its twin and nginx.

use std::time::Duration;

use super::options::Options;
use crate::error::Error;
use crate::measure::partial;
use crate::measure::record::record;
use crate::measure::stats::minimum;
use crate::runner::servers::ours;
use crate::runner::slice::Shot;
use crate::runner::{Plan, Runner};

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

pub(super) fn run(options: &Options) -> Result<Vec<WebRow>, Error> {
    let (in_flight, rounds, _) = options.plan();
    let (_, ours) = ours();
    let wants = |name: &str| name == ours || ["twin", "nginx"].contains(&name);
    let runner = Runner::start(&options.runner, &Plan::small(&wants, options.quick))?;
    let (measured, _) = partial::measure_each(&in_flight, rounds, |&connections, round| {
        eprintln!("servers with {connections} connections, round {round} of {rounds}");
        let shot = Shot::closed(connections, round, Duration::from_secs(10));
        let slice = if options.quick { QUICK } else { SLICE };
        let one = |server| {
            let (report, _) = runner.slice(server, slice, shot)?;
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
