//! `phalanx-bench figure4`: a profile of the stages of the live web server.
//!
//! The 2002 paper's Figure 4 (§3.5) shows a staged program as its stages on each processor, with queues, waits
//! and times, and the operations between them. Every program on this runtime reports these figures at its admin
//! address; this benchmark shows those of the web server under load.

mod report;

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;
use phalanx::metrics::{Interval, Snapshot};

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::Run;
use crate::runner::server::get;
use crate::runner::{ANSWER_ALL, Plan, Runner, RunnerOptions, Shot, ours};
use crate::system::{ReservedPort, START_TIMEOUT};

use report::Report;

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
