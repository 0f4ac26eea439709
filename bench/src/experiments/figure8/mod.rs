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
mod report;
mod staged;
mod twin;

use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{ArgPredicate, RangedU64ValueParser};
use phalanx::runtime::DriverChoice;
use phalanx_kernels::workload::{Generator, Workload, attributes};
use phalanx_matcher::{Attribute, Event, Matches, Snapshot, Value};

use crate::arguments::number;
use crate::error::Error;
use crate::measure::{Partial, Rounds as _, Stretch, Taken, rounds};
use crate::system::{Cores, cores, install_signal_handlers, interrupted, is_interrupted};

use arm::Running;
use arm::{Arm, Indexes};
use clients::Found;
use report::{Report, Row};

/// Measure the 2002 paper's Figure 8: duration of a publish by number of clients, and its cost.
///
/// A threaded server (the twin) and a staged one share an index, cores and a small protocol. The clients use
/// other cores, if there are any, and send the next event when they have an answer. The servers are loaded in turn;
/// figures are medians of the rounds.
///
/// Further staged servers have bounded cohorts: when that many events wait, they are matched before another is
/// read. The paper bounds them to 4, 10 and 20 events. With several processors, in one more staged server (`divided`)
/// each processor owns a part of the subscriptions, as in the paper's server. It matches all events with it in cohorts,
/// and the answers are summed; the paper does not say how events and answers travel.
///
/// With --misses, cycles per instruction as in the lower part of the figure, as means of two phases and not over time, and
/// misses, which the paper gives in its text: instructions and misses of simulated caches (first level 32 KiB,
/// second 1 MiB, 8 ways each) by cachegrind, and cycles of the time-stamp counter, outside the kernel, with 16 clients;
/// of the construction of the index, for a filter, and of an event. Requires valgrind, under which the construction takes
/// minutes.
///
/// With --matching-misses, the same for an event only, with any numbers of clients. The index is built before callgrind
/// begins to simulate the caches, so one of 1,000,000 filters takes two minutes. Requires valgrind.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of filters
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=100_000_000))]
    pub(crate) subscriptions: usize,

    /// Workload of the filters
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub(crate) workload: Workload,

    /// Choose access predicates by cost, instead of one attribute each
    #[arg(long)]
    pub(crate) chosen: bool,

    /// Processors of each server; the twin has as many cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=64))]
    pub(crate) processors: usize,

    /// Numbers of concurrent publishers; 16 with --matching-misses
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          default_value_if("matching_misses", ArgPredicate::IsPresent, "16"), value_parser = number(1..=4096))]
    pub(crate) clients: Vec<usize>,

    /// Bounds of cohorts, one staged server each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,10,20,64",
          value_parser = number(1..=4096))]
    pub(crate) cohorts: Vec<usize>,

    /// Rounds per server and number of clients
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000))]
    pub(crate) slice: u64,

    /// Seed of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,

    /// Measure instructions, misses and cycles instead
    #[arg(long, conflicts_with_all = ["clients", "cohorts", "rounds"])]
    pub(crate) misses: bool,

    /// Measure them for events only, with an index of any size
    #[arg(long, conflicts_with_all = ["misses", "cohorts", "rounds"])]
    pub(crate) matching_misses: bool,

    /// Size of the simulated second-level cache in MiB, a power of two
    #[arg(long, value_name = "MIB", default_value_t = 1, requires = "matching_misses", value_parser = power_of_two)]
    pub(crate) l2: usize,

    /// Few filters and one round: only checks that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "clients", "cohorts", "rounds", "slice"])]
    pub(crate) quick: bool,

    /// Only run this server
    #[arg(long, hide = true, value_name = "SERVER")]
    pub(crate) serve: Option<Arm>,
}

impl Options {
    /// The servers, the twin first, then the staged one.
    fn arms(&self) -> Vec<Arm> {
        let divided = (self.processors > 1).then_some(Arm::Divided);
        let bounds = self.cohorts.iter().filter(|_| !self.misses && !self.matching_misses);
        let bounded = bounds.map(|bound| Arm::Staged(Some(*bound)));
        [Arm::Twin, Arm::Staged(None)].into_iter().chain(divided).chain(bounded).collect()
    }
}

/// Parses a power of two up to 64.
fn power_of_two(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number: &usize| number.is_power_of_two());
    number.filter(|number| *number <= 64).ok_or_else(|| "a power of two up to 64".to_owned())
}

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
