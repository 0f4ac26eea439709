//! `phalanx-bench broker`: the MQTT broker compared with mosquitto, through real sockets.
//!
//! [`Options`] describes the method. Read `shape` (publishers and subscribers), `server` (a broker under
//! measurement), `client`, `message` and `clients` (the load: one thread, messages that are copied and patched)
//! and `report`.

mod client;
mod clients;
mod message;
mod options;
mod report;
mod server;
mod shape;

use std::io;
use std::time::Instant;

use phalanx_mqtt::QoS;

use crate::procfs::run_time;
use crate::stats::median;
use crate::web::cores::{Bound, Cores};
use crate::web::interference::{CpuTimes, MAX_FOREIGN_SHARE};
use crate::web::{Error, Machine, install_signal_handlers, interrupted};
use clients::Clients;
use server::Server;
use shape::Setting;

pub(crate) use server::mosquitto_version;

pub use options::Options;
pub use report::{Report, Row};
pub use shape::{Shape, Unit};

/// How often a disturbed slice is repeated before it is kept.
const MAX_REPEATS: usize = 2;
const SEED: u64 = 42;

/// Figures of one slice.
struct Slice {
    per_cpu_s: f64,
    per_s: f64,
    server_busy: f64,
    client_busy: f64,
    p50_us: f64,
    p99_us: f64,
    noisy: bool,
}

/// Runs the benchmark. Progress goes to stderr. SIGINT and SIGTERM end it from here on.
///
/// # Errors
/// When a measurement fails; all child processes are ended.
pub fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let options = options.settled();
    let cores = Cores::choose(options.runner.server_core, options.runner.load_core);
    let cores = cores.map_err(Error::Io)?;
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let machine = Machine::here(allowed, cores);
    phalanx::runtime::raise_open_files();
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir();
    let directory = directory.map_err(Error::Io)?;
    let ours = |keeps| server::phalanx(&options, keeps, cores.server, directory.path());
    let mut servers = vec![ours(false)?];
    servers.extend(server::mosquitto(cores.server, directory.path())?);
    let alone = servers.len() == 1;
    servers.push(ours(true)?);
    if alone {
        eprintln!("mosquitto is not installed and is skipped; apt-get install mosquitto");
    }
    // Keep this process off the servers' core.
    let _bound = Bound::to(cores.load).map_err(Error::Io)?;
    let mut report = Report {
        rows: Vec::new(),
        worst_over_mosquitto: None,
        kept_acknowledged_per_s: None,
        filters_per_s: None,
        filters: options.filters,
        payload: options.payload,
        mosquitto: mosquitto_version(),
        machine,
        quick: options.quick,
    };
    for shape in &options.shapes {
        for setting in shape.settings() {
            measure(setting, &servers, cores, &options, &mut report)?;
        }
    }
    let kept = |row: &&Row| row.shape == Shape::Acknowledged && row.server == "phalanx-kept";
    report.kept_acknowledged_per_s = report.rows.iter().find(kept).map(|row| row.per_s);
    let ratios = report.rows.iter().filter_map(|row| row.over_mosquitto);
    report.worst_over_mosquitto = ratios.reduce(f64::min);
    Ok(report)
}

/// Adds a row for each server that supports the setting.
fn measure(
    setting: Setting,
    servers: &[Server],
    cores: Cores,
    options: &Options,
    report: &mut Report,
) -> Result<(), Error> {
    let Setting { shape, qos, properties } = setting;
    eprintln!("{shape}, QoS {}, {properties} properties", qos as u8);
    let takes_part = |server: &&Server| match shape {
        // Mosquitto has no such filters.
        Shape::Filters => server.name == "phalanx",
        // Only acknowledged messages are journaled.
        _ => !server.keeps || (qos != QoS::AtMostOnce && shape.rate().is_none()),
    };
    let servers: Vec<&Server> = servers.iter().filter(takes_part).collect();
    let failed = |server: &Server, error: io::Error| Error::Load {
        name: server.name.to_owned(),
        why: error.to_string(),
    };
    let mut clients = Vec::new();
    for server in &servers {
        let began = Instant::now();
        let mut filed = 0;
        let progress = |count| {
            filed += count;
            eprintln!("  {filed} filters");
        };
        let started =
            Clients::start(server.process.address, server.keeps, setting, options, SEED, progress);
        clients.push(started.map_err(|error| failed(server, error))?);
        if shape == Shape::Filters {
            report.filters_per_s = Some(options.filters as f64 / began.elapsed().as_secs_f64());
        }
    }
    let mut slices: Vec<Vec<Slice>> = servers.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for ((server, clients), slices) in servers.iter().zip(&mut clients).zip(&mut slices) {
            let mut left = if options.quick { 0 } else { MAX_REPEATS };
            let slice = loop {
                interrupted()?;
                let slice = slice(server, clients, shape, cores, options);
                let slice = slice.map_err(|error| failed(server, error))?;
                if !slice.noisy || left == 0 {
                    break slice;
                }
                left -= 1;
            };
            slices.push(slice);
        }
    }
    for (server, clients) in servers.iter().zip(clients) {
        clients.leave().map_err(|error| failed(server, error))?;
    }
    for (n, (server, own)) in servers.iter().zip(&slices).enumerate() {
        let all = |of: fn(&Slice) -> f64| median(&own.iter().map(of).collect::<Vec<_>>());
        let over = |peer: &Vec<Slice>| {
            let pairs = own.iter().zip(peer);
            median(&pairs.map(|(own, peer)| own.per_cpu_s / peer.per_cpu_s).collect::<Vec<_>>())
        };
        let light = shape.rate().is_some();
        // At light load latency is compared, not throughput.
        let is_peer = |server: &Server| server.name.starts_with("mosquitto");
        let peers = servers.iter().zip(&slices).filter(|(peer, _)| is_peer(peer));
        let peers = peers.filter(|_| n == 0 && !light).map(|(_, slices)| slices);
        report.rows.push(Row {
            shape,
            qos: qos as u8,
            properties,
            server: server.name,
            publishers: shape.publishers(),
            subscribers: shape.subscribers(),
            window: shape.window(),
            unit: shape.unit(),
            per_cpu_s: all(|slice| slice.per_cpu_s),
            per_s: all(|slice| slice.per_s),
            server_busy: all(|slice| slice.server_busy),
            client_busy: all(|slice| slice.client_busy),
            p50_us: light.then(|| all(|slice| slice.p50_us)),
            p99_us: light.then(|| all(|slice| slice.p99_us)),
            over_mosquitto: peers.map(over).reduce(f64::min),
            slices: own.len(),
            noisy_slices: own.iter().filter(|slice| slice.noisy).count(),
        });
    }
    Ok(())
}

/// Measures one slice of one server, after a warm-up of a fifth of its length.
fn slice(
    server: &Server,
    clients: &mut Clients,
    shape: Shape,
    cores: Cores,
    options: &Options,
) -> io::Result<Slice> {
    let (own, length) = ([std::process::id()], options.slice);
    clients.run(length / 5)?;
    let moment = CpuTimes::take(cores, &server.process.family)?;
    clients.latency.reset();
    let (before, began) = (clients.counts, Instant::now());
    let (server_before, own_before) = (run_time(&server.process.family)?, run_time(&own)?);
    clients.run(length)?;
    if options.quick {
        // A short slice might otherwise contain no delivery.
        clients.settle()?;
    }
    let (server_after, own_after) = (run_time(&server.process.family)?, run_time(&own)?);
    let (after, seconds) = (clients.counts, began.elapsed().as_secs_f64());
    let foreign = moment.foreign_until(&CpuTimes::take(cores, &server.process.family)?, cores);
    clients.settle()?;
    let count = match shape.unit() {
        Unit::Delivered => after.delivered - before.delivered,
        Unit::Acknowledged => after.acknowledged - before.acknowledged,
    } as f64;
    let cpu = server_after - server_before;
    Ok(Slice {
        per_cpu_s: count / cpu.max(1e-9),
        per_s: count / seconds,
        server_busy: cpu / seconds,
        client_busy: (own_after - own_before) / seconds,
        p50_us: clients.latency.value_at_quantile(0.5) as f64 / 1e3,
        p99_us: clients.latency.value_at_quantile(0.99) as f64 / 1e3,
        noisy: foreign > MAX_FOREIGN_SHARE,
    })
}
