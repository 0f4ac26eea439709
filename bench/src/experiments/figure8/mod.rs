//! `phalanx-bench figure8`: the 2002 paper's Figure 8, through real sockets.
//!
//! Clients publish one event after another and wait for each answer, the number of subscriptions it satisfies.
//! The twin, a counterpart of the paper's THPS, has a thread per client that matches what it reads. The staged
//! server uses the same index and matches the events of all clients piece by piece. Both run on the same cores, and
//! clients load them in turn. Further staged servers have bounded cohorts, or divide the subscriptions among
//! their processors.

mod arm;
mod clients;
mod cost;
mod options;
mod report;
mod running;
mod staged;
mod twin;

use std::time::{Duration, Instant};

use phalanx::runtime::DriverChoice;
use phalanx_kernels::workload::{Generator, attributes};
use phalanx_matcher::{Attribute, Event, Matches, Snapshot, Value};

use crate::error::Error;
use crate::measure::{Partial, Rounds as _, Stretch, Taken, rounds};
use crate::system::{Cores, cores, install_signal_handlers, interrupted, is_interrupted};
use arm::{Arm, Indexes};
use clients::Found;
use running::Running;

pub(crate) use options::Options;
use report::{Report, Row};

/// Size of an encoded event: a byte per attribute.
pub(crate) const EVENT: usize = 32;
/// Size of an encoded answer: the number of matches.
pub(crate) const ANSWER: usize = 4;
/// Number of distinct events, which clients repeat.
const EVENTS: usize = 16 * 1024;

/// Measures, or only runs a server, without a report.
pub(crate) fn run(options: &Options) -> Result<Option<Report>, Error> {
    let mut options = options.clone();
    if options.quick {
        (options.subscriptions, options.clients, options.cohorts) = (2000, vec![1, 4], vec![4]);
        (options.rounds, options.slice) = (1, 30);
        if options.matching_misses {
            options.clients = vec![4];
        }
    }
    let arms = options.arms();
    let cores = Cores::choose(&[], &[], Some(options.processors))?;
    if let Some(arm) = options.serve {
        // The cores are those of this process.
        let indexes = Indexes::build(&options, &[arm]);
        // A server of its own may run under valgrind, where io_uring does not work: completions do not arrive.
        let (allowed, driver) = (cores::allowed()?, DriverChoice::Poll);
        let server = arm.start(&indexes, &allowed, options.processors, driver)?;
        crate::baselines::announce(server.address);
        loop {
            std::thread::park();
        }
    }
    install_signal_handlers()?;
    eprintln!("{} filters", options.subscriptions);
    let mut generator = Generator::new(options.workload, options.seed.wrapping_add(1));
    let events: Vec<[u8; EVENT]> =
        (0..EVENTS).map(|_| generator.values().map(|value| value as u8)).collect();
    let events: &[_] = events.leak(); // for the clients' threads; once
    let mut report = Report::new(&options);
    let indexes = Indexes::build(&options, &arms);
    report.index_mib = indexes.bytes as f64 / f64::from(1 << 20);
    cores::bound(&cores.server, || alone(indexes.whole(), events, &options, &mut report))?;
    if options.misses || options.matching_misses {
        drop(indexes);
        (report.costs, report.partial) = cost::measure(&options, &arms, &cores, events)?;
        return Ok(Some(report));
    }
    let start =
        |arm: &Arm| arm.start(&indexes, &cores.server, options.processors, DriverChoice::Auto);
    let servers = arms.iter().map(start).collect::<std::io::Result<Vec<_>>>()?;
    let names: Vec<String> = arms.iter().map(Arm::to_string).collect();
    for clients in options.clients.iter().copied() {
        eprintln!("{clients} clients");
        let round = || round(&options, &cores, (&servers, &names), clients, events);
        match rounds::take(options.rounds, round) {
            Ok(taken) => {
                let partial = taken.partial(options.rounds);
                report.add(clients, &names, taken);
                if partial.is_some() {
                    break;
                }
            }
            Err(Error::Interrupted) if !report.rows.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    if is_interrupted() {
        let rounds = |clients: &[usize]| clients.len() * options.rounds;
        let of = rounds(&options.clients);
        report.partial = Some(Partial { rounds: rounds(&report.clients).min(of), of });
    }
    servers.into_iter().for_each(|server| (server.end)());
    Ok(Some(report))
}

/// Loads each server once.
fn round(
    options: &Options,
    cores: &Cores,
    (servers, names): (&[Running], &[String]),
    clients: usize,
    events: &'static [[u8; EVENT]],
) -> Result<Vec<Found>, Error> {
    let slice = Duration::from_millis(options.slice);
    let load = |(server, name): (&Running, &String)| {
        interrupted()?;
        // Clients are threads that start now; a server's are there, or are started by these.
        let stretch = Stretch::begin_elsewhere();
        let found = clients::load(&cores.load, server.address, clients, events, slice)?;
        stretch.end().of(format_args!("{name}, {clients} clients"), found.count());
        Ok(found)
    };
    servers.iter().zip(names).map(load).collect()
}

/// Matches events one after the other, for the length of a measurement.
fn alone(snapshot: &Snapshot, events: &[[u8; EVENT]], options: &Options, report: &mut Report) {
    let coder = Coder::new(snapshot);
    let (mut matches, mut count, mut found) = (Matches::new(), 0, 0);
    let start = Instant::now();
    for event in events.iter().cycle() {
        matches.clear();
        snapshot.matches(&coder.code(snapshot, event), &mut matches);
        (count, found) = (count + 1, found + matches.all().len());
        if start.elapsed() >= Duration::from_millis(options.slice) {
            break;
        }
    }
    report.alone_us = Some(start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    report.matches_per_event = found as f64 / f64::from(count);
}

impl Report {
    /// Adds the rounds with a number of clients.
    fn add(&mut self, clients: usize, names: &[String], taken: Taken<Vec<Found>>) {
        let Taken { rounds: taken, noisy } = taken;
        let ratio = |above: usize, below: usize| {
            taken.median(|found| found[above].mean_us() / found[below].mean_us())
        };
        for (n, server) in names.iter().enumerate() {
            let found: Vec<&Found> = taken.iter().map(|found| &found[n]).collect();
            self.rows.push(Row::new(server, clients, &found));
        }
        self.clients.push(clients);
        self.noisy_rounds.push(noisy);
        self.twin_over_staged.push(ratio(0, 1));
        let divided = names.iter().position(|name| *name == Arm::Divided.to_string());
        self.staged_over_divided.extend(divided.map(|divided| ratio(1, divided)));
    }
}

/// Decodes events.
#[derive(Clone)]
pub(crate) struct Coder {
    known: Vec<Option<Attribute>>,
}

impl Coder {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        Self { known: attributes(snapshot) }
    }

    pub(crate) fn code(&self, snapshot: &Snapshot, bytes: &[u8; EVENT]) -> Event {
        let known = self.known.iter().zip(bytes);
        let known = known.filter_map(|(at, value)| Some(((*at)?, Value::from(i64::from(*value)))));
        snapshot.event_of(known)
    }
}
