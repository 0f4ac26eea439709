//! `phalanx-bench broker`: the MQTT broker compared with others, through real sockets.
//!
//! [`Options`] describes the method. Read `shape` (publishers and subscribers), `server` (the brokers), `packets`,
//! `client`, `message` and `clients` (the load: one thread, messages that are copied and patched) and `report`.

pub(crate) mod client;
mod clients;
mod message;
pub(crate) mod packets;
mod report;
pub(crate) mod server;
pub(crate) mod shape;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_kernels::workload::Workload;

use crate::arguments::{number, parse, seconds};
use crate::error::Error;
use crate::measure::{CpuTimes, MAX_FOREIGN_SHARE, Machine, Run, Stretch, measure_setting};
use crate::runner::{BROKERS, RunnerOptions, SetupOptions};
use crate::system::{Bound, Cores, install_signal_handlers, interrupted, run_time};

use clients::Clients;
use report::Report;
use server::{Home, Server};
pub(crate) use shape::Shape;
use shape::{Setting, Unit};

/// Measure the broker and others: messages per second of processor time.
///
/// All run concurrently on the same cores, with as many workers (mosquitto has one); one load generator visits them in
/// turn. It keeps a window of messages in flight and sends the next ones when those have arrived, so that nothing
/// is dropped. Figures are medians of the rounds, ratios are of paired slices. All clients use MQTT 5; state is
/// in memory, and logs are off. With QoS 1 Phalanx is also measured with --persistence-dir and persistent
/// sessions (`phalanx-kept`). Mosquitto runs with TCP_NODELAY and without (`mosquitto-nagle`), and the better one
/// counts. Peers that are not installed are left out; `cargo xtask peers` installs rumqttd and mochi-mqtt. Ctrl-C
/// prints the results so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Shapes of the load [default: all]
    #[arg(long = "shape", value_name = "NAME,…", value_delimiter = ',', value_enum)]
    pub(crate) shapes: Vec<Shape>,

    /// Slices per server and shape
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Payload size in bytes; the first 12 bytes hold the time and the sender
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = number(12..=65_536))]
    pub(crate) payload: usize,

    /// Number of filters on message properties, in the shape `filters`
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=10_000_000))]
    pub(crate) filters: usize,

    /// Workload of these filters, as in `phalanx-bench match`
    #[arg(long, value_name = "W", ignore_case = true, default_value = "W0")]
    pub(crate) workload: Workload,

    /// Driver: uring or poll; by default the better available one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub(crate) driver: String,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// One short slice each and few filters: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice", "filters"])]
    pub(crate) quick: bool,
}

impl Options {
    /// The defaults, with these programs and cores.
    pub(crate) fn of(setup: SetupOptions, quick: bool) -> Self {
        let runner = RunnerOptions { processors: None, setup };
        Self { runner, quick, ..parse(["--rounds=1", "--filters=1"].map(str::to_owned)) }
    }

    /// The options with the settings of a quick run applied.
    fn settled(&self) -> Self {
        let mut own = self.clone();
        if own.quick {
            (own.rounds, own.slice, own.filters) = (1, Duration::from_millis(50), 2000);
        }
        if own.shapes.is_empty() {
            own.shapes = Shape::ALL.to_vec();
        }
        own
    }
}

/// How often a disturbed slice is repeated before it is kept.
const MAX_REPEATS: usize = 2;
const SEED: u64 = 42;

/// Figures of one slice.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    /// Processor time of each group of processes for one message, in microseconds.
    pub(crate) cpu_us: Vec<f64>,
    pub(crate) per_cpu_s: f64,
    pub(crate) per_s: f64,
    server_busy: f64,
    client_busy: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) noisy: bool,
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let options = options.settled();
    let (cores, processors) = options.runner.cores()?;
    let machine = Machine::here(processors, &cores);
    phalanx::runtime::raise_open_files();
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let mut report = Report::new(&options);
    let home = Home { directory: directory.path(), cores: &cores.server, processors };
    let mut servers = vec![server::phalanx("phalanx", &options, &home)?];
    for peer in &BROKERS {
        servers.extend(home.peer(peer)?);
    }
    servers.push(server::phalanx("phalanx-kept", &options, &home)?);
    // Keep this process off the servers' cores.
    let _bound = Bound::to(&cores.load)?;
    let settings = options.shapes.iter().flat_map(|shape| shape.settings());
    let ended = settings.into_iter().try_for_each(|setting| {
        let servers: Vec<&Server> = servers.iter().filter(|one| one.joins(setting)).collect();
        rounds(setting, &servers, &cores, &options, &mut report)
    });
    match ended {
        Err(Error::Interrupted) if !report.rows.is_empty() => report.interrupted = true,
        ended => ended?,
    }
    report.summarize();
    Ok(Run::new(report, machine, None, options.quick))
}

/// Measures rounds of slices of each server, and adds them to the report.
fn rounds(
    setting: Setting,
    servers: &[&Server],
    cores: &Cores,
    options: &Options,
    report: &mut Report,
) -> Result<(), Error> {
    let Setting { shape, qos, properties } = setting;
    let title = format!("{shape}, QoS {}, {properties} properties", qos as u8);
    eprintln!("{title}");
    let mut loads = Vec::new();
    for server in servers {
        let began = Instant::now();
        loads.push(Loaded::start(server, setting, options)?);
        if shape == Shape::Filters {
            report.filters_per_s = Some(options.filters as f64 / began.elapsed().as_secs_f64());
        }
    }
    let turn = |server: usize, _| {
        let of = format!("{}, {title}", servers[server].name);
        loads[server].slice(&of, cores, options)
    };
    let add = |slices: Vec<_>| report.add(setting, servers, &slices);
    measure_setting(&title, (servers.len(), options.rounds), turn, add)?;
    loads.into_iter().try_for_each(Loaded::leave)
}

/// The clients of one setting, and the processes that serve them.
pub(crate) struct Loaded<'a> {
    name: &'a str,
    /// Processes in groups whose processor time is measured separately.
    groups: Vec<&'a [u32]>,
    clients: Clients,
    shape: Shape,
}

impl<'a> Loaded<'a> {
    /// Connects the clients to one broker.
    pub(crate) fn start(
        server: &'a Server,
        setting: Setting,
        options: &Options,
    ) -> Result<Self, Error> {
        let Server { name, keeps, process, .. } = server;
        let at = (process.address, process.address);
        Self::across(name, vec![&process.family], at, *keeps, setting, options)
    }

    /// Connects publishers to the first address and subscribers to the second.
    pub(crate) fn across(
        name: &'a str,
        groups: Vec<&'a [u32]>,
        at: (SocketAddr, SocketAddr),
        keeps: bool,
        setting: Setting,
        options: &Options,
    ) -> Result<Self, Error> {
        interrupted()?;
        let mut filed = 0;
        let progress = |count| {
            filed += count;
            eprintln!("  {filed} filters");
        };
        let clients = Clients::start(at, keeps, setting, options, SEED, progress);
        let clients = clients.map_err(|error| failed(name, &error))?;
        Ok(Self { name, groups, clients, shape: setting.shape })
    }

    /// Measures one slice, and repeats it if it was disturbed. `of` names its hardware events.
    pub(crate) fn slice(
        &mut self,
        of: &str,
        cores: &Cores,
        options: &Options,
    ) -> Result<Slice, Error> {
        let mut left = if options.quick { 0 } else { MAX_REPEATS };
        loop {
            interrupted()?;
            let slice =
                self.measure(of, cores, options).map_err(|error| failed(self.name, &error))?;
            if !slice.noisy || left == 0 {
                return Ok(slice);
            }
            left -= 1;
        }
    }

    /// Measures one slice, after a warm-up of a fifth of its length.
    fn measure(&mut self, of: &str, cores: &Cores, options: &Options) -> io::Result<Slice> {
        let Self { groups, clients, shape, .. } = self;
        let (own, length, all) = ([std::process::id()], options.slice, groups.concat());
        let times = || groups.iter().map(|group| run_time(group)).collect::<io::Result<Vec<_>>>();
        clients.run(length / 5)?;
        let moment = CpuTimes::take(cores, &all)?;
        clients.latency.reset();
        let stretch = Stretch::begin_of(&all);
        let (before, began) = (clients.counts, Instant::now());
        let (times_before, own_before) = (times()?, run_time(&own)?);
        clients.run(length)?;
        if options.quick {
            // A short slice might otherwise contain no delivery.
            clients.settle()?;
        }
        let (times_after, own_after) = (times()?, run_time(&own)?);
        let (after, seconds) = (clients.counts, began.elapsed().as_secs_f64());
        let stretch = stretch.end();
        let foreign = moment.foreign_until(&CpuTimes::take(cores, &all)?, cores);
        clients.settle()?;
        let count = match shape.unit() {
            Unit::Delivered => after.delivered - before.delivered,
            Unit::Acknowledged => after.acknowledged - before.acknowledged,
        };
        stretch.of(of, count as usize);
        let count = count as f64;
        let used: Vec<f64> = times_after.iter().zip(&times_before).map(|(a, b)| a - b).collect();
        let cpu: f64 = used.iter().sum();
        Ok(Slice {
            cpu_us: used.iter().map(|seconds| seconds * 1e6 / count).collect(),
            per_cpu_s: count / cpu.max(1e-9),
            per_s: count / seconds,
            server_busy: cpu / seconds,
            client_busy: (own_after - own_before) / seconds,
            p50_us: clients.latency.value_at_quantile(0.5) as f64 / 1e3,
            p99_us: clients.latency.value_at_quantile(0.99) as f64 / 1e3,
            noisy: foreign > MAX_FOREIGN_SHARE,
        })
    }

    /// Ends all sessions.
    pub(crate) fn leave(self) -> Result<(), Error> {
        self.clients.leave().map_err(|error| failed(self.name, &error))
    }
}

fn failed(name: &str, error: &io::Error) -> Error {
    Error::load(name, error)
}
