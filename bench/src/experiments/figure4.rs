//! `phalanx-bench figure4`: a profile of the stages of the live web server.
//!
//! The 2002 paper's Figure 4 (§3.5) shows a staged program as its stages on each processor, with queues, waits
//! and times, and the operations between them. Every program on this runtime reports these figures at its admin
//! address; this benchmark shows those of the web server under load.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;
use phalanx::metrics::{Interval, Snapshot, StageInterval};

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Run, record};
use crate::runner::server::get;
use crate::runner::{ANSWER_ALL, Plan, Runner, RunnerOptions, Shot, ours};
use crate::system::{ReservedPort, START_TIMEOUT};

record! {
    /// The report of `phalanx-bench figure4`.
    pub(crate) struct Report, fn new(
        options: &Options,
        requests_per_second: f64,
        interval: &Interval,
        picture: String,
    ) where {
        let total = interval.total();
        let stages = interval.stages.iter().zip(&total.stages).filter(|(_, stage)| stage.ran > 0);
        let rows = stages.map(|(name, stage)| Row::new(name.to_string(), stage));
        let name = |stage: usize| interval.stages[stage].to_string();
        let arcs = interval.arcs.iter().map(|arc| ArcRow {
            from: arc.from.map(|(_, stage)| name(stage)),
            to: name(arc.to.1),
            per_second: arc.count as f64 / interval.seconds,
        });
        let calls = total.system_calls as f64 / interval.seconds;
    } {
        /// One row per active stage, in wavefront order.
        rows: Vec<Row> | "stages", 0 = rows.collect::<Vec<_>>();
        /// Operations from one stage to another.
        arcs: Vec<ArcRow> | "operations from stage to stage; those without a source are external", 0
            = arcs.collect::<Vec<_>>();
        /// The server's diagram of the stages, as SVG.
        picture: String;
        connections: usize => "connections", 0 = options.connections;
        /// Responses per second.
        requests_per_second: f64 => "requests/s", 0;
        /// System calls of the driver per answer.
        system_calls_per_request: f64 => "system calls per request", 3 = calls / requests_per_second;
        /// Share of the time in which the processor ran cohorts, from 0 to 1.
        utilisation: f64 => "share of the time in cohorts", 2 = total.utilisation;
        /// Length of the profile in seconds.
        seconds: f64 = interval.seconds;
    }
}

record! {
    /// A stage during the profile.
    pub(crate) struct Row, fn new(stage: String, seen: &StageInterval) {
        /// The stage's name.
        stage: String => "stage", 0;
        /// Operations started or restarted, per second.
        operations_per_second: f64 => "operations/s", 0 = seen.per_second(seen.ran);
        cohorts_per_second: f64 => "cohorts/s", 0 = seen.per_second(seen.cohorts);
        /// Mean number of operations per cohort.
        cohort_mean: f64 => "size", 1 = seen.cohort_mean();
        /// Mean number of queued operations at the start of a cohort.
        queue_mean: f64 => "queue", 1 = seen.queue_length_mean();
        /// Longest queue since the server's start.
        queue_most: u64 => "most", 0 = seen.queue_length_max;
        /// Mean time that an operation waited for its start or resumption, in microseconds.
        wait_us: f64 => "wait µs", 1 = seen.wait_mean_ns() / 1e3;
        /// Mean time of a run up to completion or suspension, in nanoseconds.
        run_ns: f64 => "run ns", 0 = seen.run_mean_ns();
        /// The stage's share of its processor's time, from 0 to 1.
        share: f64 => "share", 2 = seen.utilisation();
    }
}

record! {
    /// Operations between stages.
    pub(crate) struct ArcRow {
        /// The stage that invoked or resumed them; `None` for external events.
        from: Option<String> => "from", 0;
        /// The stage of the operations.
        to: String => "to", 0;
        /// Operations per second.
        per_second: f64 => "per second", 0;
    }
}

/// Fraction of the slice that is profiled, centred.
const LOAD_SHARE: f64 = 0.6;
/// Maximum response time.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Profile the web server's stages under load, as in the 2002 paper's Figure 4.
///
/// Small files over keep-alive connections in closed loop; the server has one core, the load another. The figures
/// of the stages and a picture of them are fetched from the server's admin address.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = number(1..=20_000))]
    pub(crate) connections: usize,

    /// Length of the load, in seconds; its middle is profiled
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// A short slice: only checks that it runs
    #[arg(long, conflicts_with = "slice")]
    pub(crate) quick: bool,
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let slice = if options.quick { Duration::from_millis(500) } else { options.slice };
    let (_, ours) = ours();
    // Released before the server takes it; no other process here allocates ports meanwhile.
    let port = ReservedPort::take()?.give_up();
    let admin = SocketAddr::from(([127, 0, 0, 1], port));
    let (wants, admin_address) = (|name: &str| name == ours, admin.to_string());
    let arguments = [&ANSWER_ALL[..], &["--admin", &admin_address]].concat();
    let plan =
        Plan { arguments: &arguments, check_noise: false, ..Plan::small(&wants, options.quick) };
    let runner = Runner::start(&options.runner, &plan)?;
    let server = runner.servers.first().ok_or(Error::NoServers)?;
    eprintln!("{} connections", options.connections);
    let shot = Shot::closed(options.connections, 1, RESPONSE_TIMEOUT);
    let (load, seen) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(admin, slice));
        let load = runner.slice(server, slice, shot);
        (load, looking.join().expect("it does not panic"))
    });
    let (load, (interval, picture)) = (load?, seen?);
    let report = Report::new(options, load.rps(), &interval, picture);
    Ok(runner.report(report, None, options.quick))
}

/// The metrics of the middle of a slice that begins now, and the server's picture of them.
fn look(admin: SocketAddr, slice: Duration) -> std::io::Result<(Interval, String)> {
    // The first tenth of the load is its warm-up.
    std::thread::sleep(slice.mul_f64(0.1 + (1.0 - LOAD_SHARE) / 2.0));
    let before = snapshot(admin)?;
    let ms = slice.mul_f64(LOAD_SHARE).as_millis().clamp(50, 10_000);
    let picture = page(admin, &format!("/picture.svg?ms={ms}"))?;
    let after = snapshot(admin)?;
    let interval = Interval::between(&before, &after)
        .ok_or_else(|| std::io::Error::other("the server was restarted"))?;
    Ok((interval, String::from_utf8(picture).map_err(std::io::Error::other)?))
}

fn snapshot(admin: SocketAddr) -> std::io::Result<Snapshot> {
    serde_json::from_slice(&page(admin, "/snapshot.json")?).map_err(std::io::Error::other)
}

fn page(admin: SocketAddr, path: &str) -> std::io::Result<Vec<u8>> {
    let stream = TcpStream::connect_timeout(&admin, START_TIMEOUT)?;
    stream.set_read_timeout(Some(START_TIMEOUT + Duration::from_secs(10)))?;
    get(stream, path)
}
