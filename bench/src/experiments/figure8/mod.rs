//! `phalanx-bench figure8`: the 2002 paper's Figure 8, through real sockets.
//!
//! Clients publish one event after another and wait for each answer, the number of subscriptions it satisfies.
//! The twin, a counterpart of the paper's THPS, has a thread per client that matches what it reads. The staged
//! server uses the same index and matches the events of all clients piece by piece. Both run on one core, and
//! clients on another core load them in turn. Further staged servers have bounded cohorts.

mod clients;
mod options;
mod report;
mod staged;
mod twin;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_kernels::workload::{Generator, attributes};
use phalanx_matcher::{Attribute, Event, Snapshot, Value};

use crate::error::Error;
use crate::measure::rounds::{self, Taken};
use crate::measure::stats::{median, spread};
use crate::system::cores::Cores;

pub use options::Options;
pub use report::{Report, Row};

/// Size of an encoded event: a byte per attribute.
pub(crate) const EVENT: usize = 32;
/// Size of an encoded answer: the number of matches.
pub(crate) const ANSWER: usize = 4;
/// Number of distinct events, which clients repeat.
const EVENTS: usize = 16 * 1024;

/// Runs the benchmark.
///
/// # Errors
/// When a server cannot listen, a client gets no answer, or a thread cannot be bound to a core.
pub fn run(options: &Options) -> Result<Report, Error> {
    let mut options = options.clone();
    if options.quick {
        (options.subscriptions, options.clients, options.cohorts) = (2000, vec![1, 4], vec![4]);
        (options.rounds, options.slice) = (1, 30);
    }
    let cores = Cores::choose(&[], &[], Some(1))?;
    eprintln!("{} filters", options.subscriptions);
    let built = crate::experiments::matching::build(
        options.workload,
        options.subscriptions,
        options.chosen,
        options.seed,
    );
    let mut index = built.index;
    let snapshot = index.snapshot();
    let coder = Coder { known: attributes(&snapshot) };
    let bounds = std::iter::once(None).chain(options.cohorts.iter().copied().map(Some));
    let start = |bound| staged::start(&cores.server, snapshot.clone(), coder.clone(), bound);
    let staged = bounds.clone().map(start).collect::<io::Result<Vec<_>>>()?;
    let twin = twin::start(&cores.server, snapshot, coder)?;
    let name = |bound: Option<usize>| match bound {
        None => "staged".to_owned(),
        Some(most) => format!("staged-{most}"),
    };
    let staged_addresses = bounds.map(name).zip(staged.iter().map(staged::Staged::address));
    // The ratio compares the first two.
    let servers: Vec<(String, SocketAddr)> =
        std::iter::once(("twin".to_owned(), twin.address())).chain(staged_addresses).collect();
    let mut generator = Generator::new(options.workload, options.seed.wrapping_add(1));
    let events: Vec<[u8; EVENT]> =
        (0..EVENTS).map(|_| generator.values().map(|value| value as u8)).collect();
    let events: &[_] = events.leak(); // for the clients' threads; once
    let slice = Duration::from_millis(options.slice);
    let mut report = Report::new(&options);
    for clients in options.clients.iter().copied() {
        eprintln!("{clients} clients");
        let round = || -> io::Result<Vec<clients::Found>> {
            let load = |(_, address): &(String, SocketAddr)| {
                clients::load(&cores.load, *address, clients, events, slice)
            };
            servers.iter().map(load).collect()
        };
        let Taken { rounds: taken, noisy } = rounds::take(options.rounds, round)?;
        report.noisy_rounds.push(noisy);
        let ratio = |found: &Vec<clients::Found>| found[0].mean_us() / found[1].mean_us();
        let ratios: Vec<f64> = taken.iter().map(ratio).collect();
        for (n, (server, _)) in servers.iter().enumerate() {
            let each = |f: fn(&clients::Found) -> f64| {
                taken.iter().map(|found| f(&found[n])).collect::<Vec<_>>()
            };
            let of = |f| median(&each(f));
            report.rows.push(Row {
                server: server.clone(),
                clients,
                mean_us: of(clients::Found::mean_us),
                p99_us: of(clients::Found::p99_us),
                events_per_s: of(clients::Found::rate),
                spread: spread([("mean_us", each(clients::Found::mean_us))]),
            });
        }
        report.twin_over_staged.push(median(&ratios));
    }
    staged.into_iter().for_each(staged::Staged::end);
    twin.end();
    Ok(report)
}

/// Decodes events.
#[derive(Clone)]
pub(crate) struct Coder {
    known: Vec<Option<Attribute>>,
}

impl Coder {
    pub(crate) fn code(&self, snapshot: &Snapshot, bytes: &[u8; EVENT]) -> Event {
        let known = self.known.iter().zip(bytes);
        let known = known.filter_map(|(at, value)| Some(((*at)?, Value::from(i64::from(*value)))));
        snapshot.event_of(known)
    }
}
