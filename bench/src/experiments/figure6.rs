//! `phalanx-bench figure6`: the web server, its threaded twin and others under the load of users.
//!
//! The 2002 paper's Figure 6 (§5.1): throughput and latency against the number of users, each of whom requests
//! pages, reads them and thinks, as SURGE models them. There, from light to heavy load, the latency of the staged
//! server grew 2.3 times and that of the threaded one 45 times.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Arms, Rounds as _, Run, Sample, median, record, slice_counts};
use crate::runner::{Plan, Runner, RunnerOptions, Server, Shot, Slice, SurgeSite, ours};
use crate::system::MemoryLimit;
use clap::Args;

/// Cache size of the server: smaller than the site.
const CACHE: &str = "128M";
/// Maximum response time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The peers: the twin, and servers tuned for mixed sizes. Phalanx runs on its better driver.
const SERVERS: [&str; 4] = ["twin", "nginx", "lighttpd", "h2o"];

/// Measure throughput and latency against the number of users, as in the 2002 paper's Figure 6.
///
/// Users request pages of one or more files, each page over a new connection, and pause between them (SURGE, with
/// its time unit scaled by --think, so that fewer users generate as much load). The sizes of files and their
/// popularity are SURGE's too. All servers run concurrently on one core; the load generator on another core visits
/// them in turn. Figures are medians of the slices.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of users
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,256,512,1024,2048,4096",
          value_parser = number(1..=15_000))]
    pub(crate) users: Vec<usize>,

    /// Minimum pause between pages, in seconds; the mean is three times as long
    #[arg(long, value_name = "SECONDS", default_value = "0.02", value_parser = seconds)]
    pub(crate) think: Duration,

    /// Files of the site
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = number(1..=1_000_000))]
    pub(crate) files: usize,

    /// A limit on the memory of each server, with its page cache, in MiB. Each slice begins without the site in the
    /// page cache. Needs the permission to create control groups
    #[arg(long, value_name = "MIB", value_parser = number(1..=1_048_576))]
    pub(crate) memory: Option<usize>,

    /// Files of any size, and requests with SURGE's temporal locality
    #[arg(long)]
    pub(crate) surge: bool,

    /// Slices per server and number of users
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each with few users: only checks that it runs
    #[arg(long, conflicts_with_all = ["users", "files", "slices", "slice"])]
    pub(crate) quick: bool,
}

record! {
    /// The report of `phalanx-bench figure6`. `measured` are the slices of each of `servers`, for each number of users.
    pub(crate) struct Report, fn new(
        rows: Vec<Row>,
        servers: &[&'static str],
        measured: &[Arms<Slice>],
        options: &Options,
        site_bytes: u64,
    ) where {
        let growth = |server| {
            let mut rows = rows.iter().filter(|row| row.server == server);
            let few = rows.next()?;
            Some(rows.next_back().unwrap_or(few).mean_ms / few.mean_ms)
        };
        let (twin_growth_over_phalanx, throughput_over_twin) = to_twin(servers, measured);
    } {
        /// One per server and number of users.
        rows: Vec<Row> | "users who think between pages", 1;
        /// Mean latency of each server with the most users over that with the fewest.
        latency_growth: BTreeMap<&'static str, f64> => "mean latency with the most users over that with the fewest", 1
            = servers.iter().filter_map(|name| Some((*name, growth(*name)?))).collect::<BTreeMap<_, _>>();
        /// The growth of the twin over that of Phalanx; above 1, the latency of Phalanx grows less. From the medians of
        /// the pairs of slices with the most and with the fewest users.
        twin_growth_over_phalanx: Option<f64> => "growth of the twin over that of Phalanx", 2;
        /// Answers per second with the most users: Phalanx over the twin; median of the pairs of slices.
        throughput_over_twin: Option<f64> => "throughput over the twin with the most users", 2;
        /// Minimum pause between pages, in seconds.
        think: f64 => "minimum pause in seconds", 3 = options.think.as_secs_f64();
        /// Size of the site in bytes.
        site_bytes: u64 => "bytes of the site", 0;
        /// The limit on the memory of a server in MiB, if any.
        memory_mib: Option<usize> => "MiB of memory for each server", 0 = options.memory;
        /// Whether the tail of the sizes is uncut, and requests have temporal locality.
        surge: bool = options.surge;
    }
}

record! {
    /// One server with a number of users; medians of the slices.
    pub(crate) struct Row, fn new(server: &'static str, users: usize, seen: &[Slice]) {
        users: usize => "users", 0;
        /// `phalanx`, `twin`, `nginx`, `lighttpd` or `h2o`.
        server: &'static str => "server", 0;
        /// Answers per second.
        rps: f64 => "answers/s", 0 = seen.median(Slice::rps);
        /// Mebibytes per second.
        mib_per_second: f64 => "MiB/s", 0
            = seen.each(|slice| slice.report.bytes as f64 / slice.report.seconds / f64::from(1 << 20));
        /// Mean time from the intended start of a request to its last byte, in milliseconds. The first request of a
        /// page includes the connection setup.
        mean_ms: f64 => "mean ms", 2 = seen.each(|slice| slice.report.latency.mean_us / 1e3);
        /// The standard deviation of the same: the error bars of the paper.
        deviation_ms: f64 => "± ms", 2 = seen.median(|slice| slice.report.latency.deviation_us / 1e3);
        /// 99th percentile of the same.
        p99_ms: f64 => "p99 ms", 2 = seen.median(|slice| slice.p99_us() / 1e3);
        /// Processor time per request, in microseconds.
        cpu_us_per_request: f64 => "µs each", 1 = seen.median(Slice::cpu_us);
        /// Share of the load's core that the load used; near 1, the load is the bottleneck.
        client_busy: f64 => "load busy", 2
            = seen.median(|slice| slice.report.client_cpu_us_per_request * slice.rps() / 1e6);
        /// Requests without an answer, in all slices.
        failed: u64 => "unanswered", 0 = seen.iter().map(|slice| slice.report.errors.total()).sum::<u64>();
        sample: Sample, flatten = slice_counts(seen);
    }
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let (users, files, slices, slice) = match options.quick {
        true => (vec![16, 64], 256, 1, Duration::from_millis(300)),
        false => (options.users.clone(), options.files, options.slices, options.slice),
    };
    let (_, ours) = ours();
    let site = SurgeSite::new(files, options.surge);
    // The cache of the server is a part of its memory, and others have none.
    let cache = if options.memory.is_some() { "8M" } else { CACHE };
    let wants = |name: &str| name == ours || SERVERS.contains(&name);
    let plan = Plan {
        arguments: &["--max-queue-delay", "0", "--cache", cache],
        site: &|directory| site.make(directory),
        cold: options.memory.is_some(),
        ..Plan::small(&wants, options.quick)
    };
    // Removed after the servers have ended.
    let mut limits = Vec::new();
    let runner = Runner::start(&options.runner, &plan)?;
    if options.memory.is_some() {
        runner.check_evicts()?;
    }
    for server in options.memory.iter().flat_map(|_| &runner.servers) {
        let bytes = options.memory.map_or(0, |mib| (mib as u64) << 20);
        let limit = MemoryLimit::new(server.server, bytes)?;
        server.process.family.iter().try_for_each(|process| limit.add(*process))?;
        limits.push(limit);
    }
    let title = |users: &usize| format!("{users} users");
    let (measured, partial) = runner.slices(&users, title, (slices, slice), |&users, seed| {
        Shot { think: Some(options.think), ..Shot::closed(users, seed, REQUEST_TIMEOUT) }
    })?;
    let mut rows = Vec::new();
    for (users, seen) in users.into_iter().zip(&measured) {
        let row = |(server, seen): (&Server, &Vec<_>)| Row::new(server.server, users, seen);
        rows.extend(runner.servers.iter().zip(seen).map(row));
    }
    let names: Vec<&'static str> = runner.servers.iter().map(|server| server.server).collect();
    let report = Report::new(rows, &names, &measured, options, site.bytes());
    Ok(runner.report(report, partial, options.quick))
}

/// Medians of the pairs of slices: the growth of the twin's latency over that of Phalanx, and the throughput of Phalanx
/// over the twin with the most users.
fn to_twin(servers: &[&str], measured: &[Arms<Slice>]) -> (Option<f64>, Option<f64>) {
    let over = |users: Option<&Arms<Slice>>, above, below, figure: fn(&Slice) -> f64| {
        let of = |name| users?.get(servers.iter().position(|server| *server == name)?);
        Some(median(&of(above)?.over(of(below)?, figure)))
    };
    let (few, many) = (measured.first(), measured.last());
    let mean = |slice: &Slice| slice.report.latency.mean_us;
    let latency = |users| over(users, "twin", "phalanx", mean);
    let growth = latency(many).zip(latency(few)).map(|(many, few)| many / few);
    (growth, over(many, "phalanx", "twin", Slice::rps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_to_the_twin_are_those_of_pairs() {
        let slice = |(rps, mean_us): (f64, f64)| {
            let mut slice = Slice::example();
            slice.report.requests_per_second = rps;
            slice.report.latency.mean_us = mean_us;
            slice
        };
        let arm = |slices: [(f64, f64); 3]| slices.map(slice).to_vec();
        let few = vec![
            arm([(8.0, 2.0), (2.0, 8.0), (6.0, 3.0)]),
            arm([(8.0, 1.0), (2.0, 4.0), (6.0, 1.5)]),
        ];
        let many = vec![
            arm([(9.0, 3.0), (1.0, 9.0), (5.0, 4.0)]),
            arm([(3.0, 9.0), (1.0, 27.0), (1.0, 40.0)]),
        ];
        // The ratio of the medians of the throughput is 5.
        let servers = ["phalanx", "twin"];
        assert_eq!(to_twin(&servers, &[few.clone(), many]), (Some(6.0), Some(3.0)));
        assert_eq!(to_twin(&servers[..1], &[few]), (None, None));
    }
}
