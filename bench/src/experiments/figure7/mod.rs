//! `phalanx-bench figure7`: instructions, misses and cycles per request of a staged and a threaded web server.
//!
//! The 2002 paper's Figure 7 (§5.1) shows cycles per instruction and L2 misses of both servers under SURGE's users, that of
//! the 2001 report (§6.2) also stalls and L1 data misses. Virtual machines have no hardware counters for them. Here instructions and misses are
//! counted by cachegrind, and cycles by the time-stamp counter.

mod options;
mod report;

use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::measure::{Run, cycles, measure_arms, measure_more};
use crate::runner::{ANSWER_ALL, Plan, Runner, Server, Shot, Site, SurgeSite, slice};
use crate::system::cachegrind::Counts;
use crate::system::user_and_system;

pub(crate) use options::Options;
use report::{Report, Row};

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
    let per_us = cycles::per_microsecond();
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
