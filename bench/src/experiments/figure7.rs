//! `phalanx-bench figure7`: instructions, misses and cycles per request of a staged and a threaded web server.
//!
//! The 2002 paper's Figure 7 (§5.1) shows cycles per instruction and L2 misses of both servers under SURGE's users, that of
//! the 2001 report (§6.2) also stalls and L1 data misses. Virtual machines have no hardware counters for them. Here instructions and misses are
//! counted by cachegrind, and cycles by the time-stamp counter.

use std::path::Path;
use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Misses, Rounds as _, Run, clock, measure_arms, measure_more, median, record};
use crate::runner::{
    ANSWER_ALL, Plan, Runner, RunnerOptions, Server, Shot, Site, SurgeSite, slice,
};
use crate::system::cachegrind::Counts;
use crate::system::user_and_system;

/// Measure instructions, misses and cycles per request, after Figure 7 of the papers.
///
/// The 2002 paper's figure shows cycles per instruction and the rate of L2 misses, which follow from them; no paper has
/// figures per request.
///
/// The web server and its threaded twin under the load of SURGE's users, who request pages of one or more files, each page
/// over a new connection, and pause between them. With --connections: small files over keep-alive connections in closed
/// loop. Cachegrind counts instructions and misses of a simulated cache (first level 32 KiB, second 1 MiB, 8 ways each),
/// without the kernel; there a server is some twenty times slower, so pauses are twenty times as long. Cycles are processor
/// time in units of the time-stamp counter, medians of the slices. If the machine has hardware counters, these show the
/// same with the kernel and without. Requires valgrind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of users
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,512,2048", value_parser = number(1..=15_000))]
    pub(crate) users: Vec<usize>,

    /// Numbers of connections in closed loop, instead of users
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = number(1..=500),
          conflicts_with_all = ["users", "think", "files"])]
    pub(crate) connections: Vec<usize>,

    /// Minimum pause between pages, in seconds; the mean is three times as long
    #[arg(long, value_name = "SECONDS", default_value = "0.02", value_parser = seconds)]
    pub(crate) think: Duration,

    /// Files of the users' site
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = number(1..=1_000_000))]
    pub(crate) files: usize,

    /// Slices per server and number of clients
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(1..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// A short slice each: only checks that it runs
    #[arg(long, conflicts_with_all = ["slices", "slice"])]
    pub(crate) quick: bool,
}

record! {
    /// The report of `phalanx-bench figure7`.
    pub(crate) struct Report, fn new(rows: Vec<Row>, has_users: bool, cycles_per_us: f64) where {
        let most = rows.iter().map(|row| row.clients).max();
        let find = |name| rows.iter().find(|row: &&Row| row.server == name && Some(row.clients) == most);
        let both = find("phalanx").zip(find("twin"));
        let over_twin = |of: fn(&Row) -> Option<f64>| both.and_then(|(phalanx, twin)| Some(of(phalanx)? / of(twin)?));
        let cycles = |(phalanx, twin): (&Row, &Row)| median(&phalanx.shown.over(&twin.shown, |slice| slice.all));
    } {
        /// One per server and number of clients.
        rows: Vec<Row> | "a request: instructions and misses by cachegrind, outside of the kernel; cycles of the time-stamp counter", 0;
        /// `users` who think, or `connections` in closed loop.
        load: &'static str => "clients", 0 = if has_users { "users" } else { "connections" };
        /// Instructions with the most clients: Phalanx over the twin.
        instructions_over_twin: Option<f64> => "instructions over the twin, with the most clients", 2
            = over_twin(|row| Some(row.each?.instructions));
        /// The same ratio of simulated second-level misses.
        l2_misses_over_twin: Option<f64> => "second-level misses over the twin", 2
            = over_twin(|row| Some(row.each?.l2()));
        /// The same ratio of cycles, including the kernel: the median of the pairs of slices.
        cycles_over_twin: Option<f64> => "cycles over the twin", 2 = both.map(cycles);
        /// Cycles of the time-stamp counter per microsecond.
        cycles_per_us: f64 => "cycles per µs", 0;
    }
}

record! {
    /// Cost of a request on one server with a number of clients.
    pub(crate) struct Row, fn new(
        server: &'static str,
        clients: usize,
        shown: Vec<Shown>,
        counts: Option<Counts>,
    ) {
        /// `phalanx` or `twin`.
        server: &'static str => "server", 0;
        /// Number of users, or of connections with one request in flight.
        clients: usize => "clients", 0;
        each: Option<Misses>, flatten = counts.map(Misses::from);
        /// Processor time in cycles, including the kernel: the median of the slices.
        cycles: f64 => "cycles", 0 = shown.median(|slice| slice.all);
        /// Processor time in cycles outside the kernel, as accounted by the kernel: the median of the slices.
        own_cycles: f64 => "own", 0 = shown.median(|slice| slice.own);
        own_cycles_per_instruction: Option<f64> => "own/instruction", 2
            = counts.map(|counts| own_cycles / counts.instructions);
        /// The slices.
        #[serde(skip)]
        shown: Vec<Shown>;
    }
}

/// Maximum response time, and the same under valgrind.
const TIMEOUT: Duration = Duration::from_secs(5);
const SIMULATED_TIMEOUT: Duration = Duration::from_secs(30);
/// Lengths of the two loads under valgrind, in seconds; their difference is counted.
const SECONDS: [u32; 2] = [2, 10];
/// How many times longer the users' pauses are under valgrind, since a server takes about as many times longer.
const SLOWDOWN: u32 = 20;
/// Arguments of the web server under users: answer all, and keep a part of the site in memory, as in Figure 6.
const USERS: [&str; 4] = ["--max-queue-delay", "0", "--cache", "128M"];

/// Figures of a slice, per request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// Cycles of processor time, including the kernel.
    all: f64,
    /// Cycles outside the kernel.
    own: f64,
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let (slices, slice, seconds) = match options.quick {
        true => (1, slice::QUICK, [1, 2]),
        false => (options.slices, options.slice, SECONDS),
    };
    let has_users = options.connections.is_empty();
    let clients = if has_users { &options.users } else { &options.connections };
    let surge = SurgeSite::new(if options.quick { 256 } else { options.files }, has_users);
    // The driver that also runs under valgrind.
    let wants = |name: &str| name == "phalanx-poll" || name == "twin";
    let site = |directory: &Path| match has_users {
        true => surge.make(directory),
        false => Site::make(directory),
    };
    let arguments: &[&str] = if has_users { &USERS } else { &ANSWER_ALL };
    let plan = Plan { arguments, site: &site, ..Plan::small(&wants, options.quick) };
    let runner = Runner::start(&options.runner, &plan)?;
    let per_us = clock::cycles_per_microsecond();
    let shot = |clients, seed, timeout, slowdown| Shot {
        think: has_users.then_some(options.think * slowdown),
        ..Shot::closed(clients, seed, timeout)
    };
    let title = |clients: &usize| format!("{clients} clients");
    let turns = (runner.servers.len(), slices);
    let (measured, mut partial) =
        measure_arms(clients, title, turns, |&clients, server, round| {
            let shot = shot(clients, round, TIMEOUT, 1);
            one(&runner, &runner.servers[server], slice, shot, per_us)
        })?;
    let mut counts = Vec::new();
    if partial.is_none() {
        // Simulation is insensitive to noise, and its servers are separate processes.
        (counts, partial) = measure_more(clients, |&clients| {
            eprintln!("{clients} clients, under valgrind");
            let shot = shot(clients, 1, SIMULATED_TIMEOUT, SLOWDOWN);
            let one = |server: &Server| runner.simulated(&plan, &server.name, shot, seconds);
            runner.servers.iter().map(one).collect::<Result<Vec<Counts>, _>>()
        })?;
    }
    let mut rows = Vec::new();
    for (at, (clients, seen)) in clients.iter().zip(measured).enumerate() {
        let of = |(n, (server, shown)): (usize, (&Server, Vec<Shown>))| {
            let counts = counts.get(at).map(|counts: &Vec<Counts>| counts[n]);
            Row::new(server.server, *clients, shown, counts)
        };
        rows.extend(runner.servers.iter().zip(seen).enumerate().map(of));
    }
    Ok(runner.report(Report::new(rows, has_users, per_us), partial, options.quick))
}

fn one(
    runner: &Runner,
    server: &Server,
    slice: Duration,
    shot: Shot,
    per_us: f64,
) -> Result<Shown, Error> {
    let times = || user_and_system(&server.process.family).map_err(Error::Io);
    let before = times()?;
    let load = runner.slice(server, slice, shot)?.of_right_answers(server)?;
    let after = times()?;
    let all = load.cpu_us() * per_us;
    let (user, system) = (after.0 - before.0, after.1 - before.1);
    Ok(Shown { all, own: all * user / (user + system).max(f64::MIN_POSITIVE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_compared_in_pairs() {
        let row = |server, cycles: [f64; 3]| {
            let shown = cycles.map(|all| Shown { all, own: all / 2.0 }).to_vec();
            Row::new(server, 64, shown, None)
        };
        let rows = vec![row("phalanx", [2.0, 8.0, 3.0]), row("twin", [4.0, 16.0, 12.0])];
        let report = Report::new(rows, true, 1.0);
        // The ratio of the medians is 0.25.
        assert_eq!((report.cycles_over_twin, report.rows[1].own_cycles), (Some(0.5), 6.0));
        assert_eq!(report.instructions_over_twin, None);
    }
}
