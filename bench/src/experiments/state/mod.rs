//! `phalanx-bench state`: the memory of what brokers hold, and the restart with it.
//!
//! [`Options`] describes the method. Read `servers` (the brokers) and `client`.

pub(crate) mod client;
mod servers;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::thread::scope;
use std::time::{Duration, Instant};

use clap::Args;

use crate::arguments::number;
use crate::error::Error;
use crate::experiments::broker::server::Home;
use crate::measure::{Machine, Run, Stretch, measure_each, record};
use crate::runner::{BROKERS, RunnerOptions, versions};
use crate::system::{Bound, Process, install_signal_handlers, interrupted, resident_bytes};

use client::{Client, Lasts, WINDOW};
use servers::Broker;

/// Measure what a broker holds: its memory, and the time of a restart.
///
/// The servers run one after the other. Each gets idle connections, then a subscription of each, loses all of them, and
/// gets the connections once more. Memory is resident memory that the objects add, divided by their number. The brokers
/// that store their state get sessions with a subscription, retained messages and queued messages, and are ended:
/// Phalanx by SIGKILL, mosquitto by SIGTERM, at which it saves. The time of the restart ends with the first CONNACK;
/// then some sessions and retained messages are read back. Peers that are not installed are left out. Ctrl-C prints the
/// results so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Idle connections [default: as many as the limit of open files permits, up to 20,000]
    #[arg(long, value_name = "N", value_parser = number(1..=1_000_000))]
    pub(crate) connections: Option<usize>,

    /// Sessions without a connection; 0 to leave out the restart
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number(0..=10_000_000))]
    pub(crate) sessions: usize,

    /// Retained messages
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=10_000_000))]
    pub(crate) retained: usize,

    /// Queued messages
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = number(1..=10_000_000))]
    pub(crate) queued: usize,

    /// Payload size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = number(1..=65_536))]
    pub(crate) payload: usize,

    /// Only these servers: phalanx, mosquitto, rumqttd, mochi-mqtt
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Driver: uring or poll; by default the better available one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub(crate) driver: String,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// Few objects: only checks that it runs
    #[arg(long, conflicts_with_all = ["connections", "sessions", "retained", "queued"])]
    pub(crate) quick: bool,
}

/// Maximum number of connections that are chosen without an option.
const MAX_CONNECTIONS: usize = 20_000;
/// Descriptors that are left for other files.
const SPARE_FILES: usize = 100;

impl Options {
    /// The options with the settings of a quick run applied.
    fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.connections, own.sessions, own.retained, own.queued) = (Some(50), 20, 100, 60);
        }
        own
    }

    /// The number of idle connections.
    fn connections(&self) -> usize {
        // The load has as many descriptors as a server.
        let files = phalanx::runtime::raise_open_files().unwrap_or(u64::MAX);
        let most = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(SPARE_FILES);
        self.connections.unwrap_or(most.min(MAX_CONNECTIONS))
    }

    /// Whether a server is measured.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

record! {
    /// The report of `phalanx-bench state`.
    pub(crate) struct Report {
        /// One per server.
        rows: Vec<Row> | "", 0;
        connections: usize => "connections", 0;
        sessions: usize => "sessions", 0;
        retained: usize => "retained messages", 0;
        queued: usize => "queued messages", 0;
        /// Payload size in bytes.
        payload: usize;
        /// Versions of the peers; `None` if not installed.
        peers: BTreeMap<&'static str, Option<String>> => "peer", 0;
    }
}

record! {
    /// A server.
    #[derive(Default)]
    pub(crate) struct Row {
        server: String => "server", 0;
        /// Memory of an idle connection, in bytes.
        connection_bytes: f64 => "connection", 0;
        /// Memory that a subscription adds.
        subscription_bytes: f64 => "subscription", 0;
        /// Memory per connection and subscription that is left when all clients are gone.
        left_bytes: f64 => "left", 0;
        /// The same when they are back: above the first figure, memory is lost.
        again_bytes: f64 => "again", 0;
        /// Memory of a retained message.
        retained_bytes: Option<f64> => "retained", 0;
        /// Memory of a session with a subscription and without a connection.
        session_bytes: Option<f64> => "session", 0;
        /// Memory of a queued message.
        queued_bytes: Option<f64> => "queued", 0;
        /// Time from the start of the process to the first CONNACK, in seconds.
        restart_s: Option<f64> => "restart s", 2;
        /// Resident memory after the restart, in bytes.
        restarted_bytes: Option<u64> => "resident", 0;
        /// Messages that were read back after the restart.
        checked: Option<usize> => "read back", 0;
        /// Messages that were missing among them.
        missing: Option<usize> => "missing", 0;
    }
}

/// Clients that connect at once, so that a broker stores the sessions of many with one write.
const THREADS: usize = 64;
/// Retained messages below each topic level.
const TOPICS_PER_LEVEL: usize = 1000;
/// Time for a server to notice that clients left, and to give memory back.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// Sessions that are read back.
const CHECKED_SESSIONS: usize = 100;

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let options = options.settled();
    let (cores, processors) = options.runner.cores()?;
    let machine = Machine::here(processors, &cores);
    let connections = options.connections();
    let _bound = Bound::to(&cores.load)?;
    let brokers = Broker::all(&options);
    let (rows, partial) = measure_each(&brokers, 1, |broker, _| {
        let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
        let home = Home { directory: directory.path(), cores: &cores.server, processors };
        eprintln!("{}: {connections} connections", broker.name());
        let mut row = Row { server: broker.name().to_owned(), ..Row::default() };
        connect(*broker, &options, home, &mut row)?;
        if broker.stores() && options.sessions > 0 {
            restart(*broker, &options, home, &mut row)?;
        }
        Ok(row)
    })?;
    let Options { sessions, retained, queued, payload, quick, .. } = options;
    let (rows, peers) = (rows.into_iter().flatten().collect(), versions(&BROKERS));
    let report = Report { rows, connections, sessions, retained, queued, payload, peers };
    Ok(Run::new(report, machine, partial, quick))
}

/// Measures connections and subscriptions.
fn connect(broker: Broker, options: &Options, home: Home<'_>, row: &mut Row) -> Result<(), Error> {
    let (process, count) = (broker.start(options, home)?, options.connections());
    // The first client allocates what all of them share.
    drop(clients(process.address, 0..1, Lasts::Connection)?);
    std::thread::sleep(SETTLE_TIME);
    let before = resident_bytes(&process.family)?;
    let each = |now: u64, before: u64| (now as f64 - before as f64) / count as f64;
    let stretch = Stretch::begin_of(&process.family);
    let mut all = clients(process.address, 0..count, Lasts::Connection)?;
    stretch.end().of(format_args!("{}, connections", broker.name()), count);
    let connected = resident_bytes(&process.family)?;
    row.connection_bytes = each(connected, before);
    let stretch = Stretch::begin_of(&process.family);
    subscribe(&mut all)?;
    stretch.end().of(format_args!("{}, subscriptions", broker.name()), count);
    let subscribed = resident_bytes(&process.family)?;
    row.subscription_bytes = each(subscribed, connected);
    drop(all);
    std::thread::sleep(SETTLE_TIME);
    row.left_bytes = each(resident_bytes(&process.family)?, before);
    let mut all = clients(process.address, 0..count, Lasts::Connection)?;
    subscribe(&mut all)?;
    row.again_bytes = each(resident_bytes(&process.family)?, before);
    Ok(())
}

/// Measures stored state, and the restart with it.
fn restart(broker: Broker, options: &Options, home: Home<'_>, row: &mut Row) -> Result<(), Error> {
    let Options { sessions, retained, queued, payload, .. } = *options;
    let process = broker.start_stored(options, home)?;
    let at = process.address;
    let mut before = resident_bytes(&process.family)?;
    let mut grown = |process: &Process, count: usize| -> io::Result<Option<f64>> {
        let now = resident_bytes(&process.family)?;
        Ok(Some((now as f64 - std::mem::replace(&mut before, now) as f64) / count as f64))
    };
    eprintln!("{}: {retained} retained messages", broker.name());
    let mut publisher = Client::connect(at, "publisher", Lasts::Connection)?;
    let stretch = Stretch::begin_of(&process.family);
    publisher.publish((retained, WINDOW), retained_topic, (payload, true))?;
    stretch.end().of(format_args!("{}, retained messages", broker.name()), retained);
    row.retained_bytes = grown(&process, retained)?;
    eprintln!("{}: {sessions} sessions", broker.name());
    // Their connections end: a session is created by each.
    for first in (0..sessions).step_by(TOPICS_PER_LEVEL) {
        interrupted()?;
        let names = first..sessions.min(first + TOPICS_PER_LEVEL);
        subscribe(&mut clients(at, names, Lasts::Hour)?)?;
    }
    row.session_bytes = grown(&process, sessions)?;
    eprintln!("{}: {queued} queued messages", broker.name());
    let stretch = Stretch::begin_of(&process.family);
    publisher.publish((queued, WINDOW), |n| topic(n % sessions), (payload, false))?;
    stretch.end().of(format_args!("{}, queued messages", broker.name()), queued);
    row.queued_bytes = grown(&process, queued)?;
    drop(publisher);
    broker.end(process)?;
    interrupted()?;
    eprintln!("{}: restart", broker.name());
    let begun = Instant::now();
    let process = broker.start_stored(options, home)?;
    let mut reader = Client::connect(process.address, "reader", Lasts::Connection)?;
    row.restart_s = Some(begun.elapsed().as_secs_f64());
    row.restarted_bytes = Some(resident_bytes(&process.family)?);
    let (mut expected, mut read) = (retained.div_ceil(TOPICS_PER_LEVEL), 0);
    reader.subscribe("state/retained/+/0")?;
    read += reader.receive(expected)?;
    for n in (0..sessions).step_by(sessions.div_ceil(CHECKED_SESSIONS)) {
        let of_session = queued / sessions + usize::from(n < queued % sessions);
        expected += of_session;
        let mut client = Client::connect(process.address, &name(n), Lasts::Hour)?;
        if client.is_resumed {
            read += client.receive(of_session)?;
        }
    }
    (row.checked, row.missing) = (Some(read), Some(expected - read));
    Ok(())
}

fn name(client: usize) -> String {
    format!("client-{client:07}")
}

fn topic(client: usize) -> String {
    format!("state/clients/{client}")
}

fn retained_topic(n: usize) -> String {
    format!("state/retained/{}/{}", n / TOPICS_PER_LEVEL, n % TOPICS_PER_LEVEL)
}

/// Connects clients.
fn clients(
    at: SocketAddr,
    numbers: std::ops::Range<usize>,
    lasts: Lasts,
) -> Result<Vec<(usize, Client)>, Error> {
    let numbers: Vec<usize> = numbers.collect();
    let connected = in_threads(&numbers, |n| Ok((*n, Client::connect(at, &name(*n), lasts)?)))?;
    interrupted()?;
    Ok(connected)
}

/// Subscribes each client to its own topic.
fn subscribe(clients: &mut [(usize, Client)]) -> io::Result<()> {
    let share = clients.len().div_ceil(THREADS).max(1);
    scope(|scope| {
        let threads = clients.chunks_mut(share).map(|share| {
            scope
                .spawn(|| share.iter_mut().try_for_each(|(n, client)| client.subscribe(&topic(*n))))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

/// Calls `work` for each item, on several threads; the results are in order.
fn in_threads<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> io::Result<R> + Sync,
) -> io::Result<Vec<R>> {
    let (share, work) = (items.len().div_ceil(THREADS).max(1), &work);
    let results = scope(|scope| {
        let threads = items.chunks(share).map(|share| {
            scope.spawn(move || share.iter().map(work).collect::<io::Result<Vec<R>>>())
        });
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        joined.collect::<io::Result<Vec<_>>>()
    });
    Ok(results?.into_iter().flatten().collect())
}
