//! The simulated site and server, drawn from the seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::Bytes;
use phalanx::sim::World;
use phalanx_web::{
    AccessLog, Config, LogFormat, LogTarget, MeasurementSettings, Scheme, Server, Symlinks, Tls,
};

use crate::simulation::wire::IDENTITY;

/// Longer than any run takes, however far the clock jumps.
const TIMEOUT: Duration = Duration::from_secs(1 << 30);

/// Files on the disk, with all their versions by path.
pub(crate) type Files = BTreeMap<&'static str, Vec<Bytes>>;

/// Conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// The network or the disk fails.
    pub(crate) has_faults: bool,
    /// The server has short time limits, or shuts down while clients are connected.
    pub(crate) has_short_timeouts: bool,
    /// The server shuts down while clients are connected.
    pub(crate) shuts_down: bool,
    pub(crate) features: Features,
}

/// Optional features of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) compresses: bool,
    /// Precompressed files are served.
    pub(crate) precompressed: bool,
    pub(crate) lists: bool,
    /// It has its own error page for missing files.
    pub(crate) error_page: bool,
    pub(crate) logs: bool,
    /// It serves TLS only.
    pub(crate) tls: bool,
}

impl Features {
    pub(crate) fn random(world: &mut World) -> Self {
        let mut one_in = |bound| world.draw(bound) == 0;
        Self {
            compresses: one_in(2),
            precompressed: one_in(3),
            lists: one_in(2),
            error_page: one_in(2),
            logs: one_in(2),
            tls: one_in(4),
        }
    }
}

/// Times at which the changing file got its versions, and the maximum age of a cached one.
pub(crate) struct History {
    pub(crate) write_times: RefCell<Vec<Duration>>,
    pub(crate) max_age: Duration,
}

impl History {
    /// Whether this version was current at some time between `requested_at` and `now`, or so shortly before that the
    /// cache need not have checked.
    pub(crate) fn was_valid(&self, version: usize, requested_at: Duration, now: Duration) -> bool {
        let write_times = self.write_times.borrow();
        let replaced = write_times.get(version + 1);
        write_times.get(version).is_some_and(|from| *from <= now)
            && replaced.is_none_or(|until| *until + self.max_age >= requested_at)
    }
}

/// Maximum time between checking a file and caching it, on the simulated disk and in the queues.
const MAX_LOAD_TIME: Duration = Duration::from_millis(250);

pub(crate) fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 80))
}

fn pattern(length: usize, from: usize) -> Bytes {
    (from..from + length).map(|n| (n ^ (n >> 8)) as u8).collect()
}

/// Compressible text.
fn text(length: usize, from: usize) -> Bytes {
    let lines = (from..).flat_map(|n| format!("line {n} of a text\n").into_bytes());
    lines.take(length).collect()
}

/// The file that changes.
pub(crate) const CHANGING: &str = "/changing.txt";
/// The listed directory and its files.
pub(crate) const LISTED: (&str, [&str; 2]) = ("/listed/", ["one.txt", "two.bin"]);
/// The error page for missing files.
pub(crate) const ERROR_PAGE: &str = "/404.html";

/// Generated once, because that is slow in a debug build.
pub(crate) static FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut files = Files::new();
    files.insert("/small.txt", vec![pattern(100, 0)]);
    files.insert("/empty", vec![Bytes::new()]);
    files.insert("/whole.bin", vec![pattern(40_000, 3)]);
    files.insert("/blocks.bin", vec![pattern(300_001, 5)]);
    files.insert("/text.txt", vec![text(20_000, 1)]);
    files.insert("/long.txt", vec![text(200_000, 2)]);
    files.insert("/listed/one.txt", vec![text(3_000, 3)]);
    files.insert("/listed/two.bin", vec![pattern(10, 9)]);
    files.insert("/sub/index.html", vec![pattern(900, 7)]);
    files.insert(ERROR_PAGE, vec![text(2_000, 4)]);
    // Some of them are compressible.
    let version = |n: usize| [pattern(500 + 100 * n, 11 * n), text(1500 + 700 * n, 11 * n)];
    files.insert(CHANGING, (0..2).flat_map(version).collect());
    files
});

/// Writes the first version of each file to the disk.
pub(crate) fn write_files(world: &mut World) {
    for (path, versions) in &*FILES {
        world.file(path, versions[0].clone());
    }
    let text = &FILES["/text.txt"][0];
    let encoder = flate2::read::GzEncoder::new(&text[..], flate2::Compression::fast());
    let mut beside = Vec::new();
    std::io::Read::read_to_end(&mut { encoder }, &mut beside).unwrap();
    world.file("/text.txt.gz", beside);
    world.link("/link", "small.txt");
}

/// Starts the server. Returns the maximum age of cached files.
pub(crate) fn serve(world: &mut World, conditions: Conditions) -> Duration {
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    config.hash_seed = Some(world.seed());
    config.cache_bytes = [0, 100_000, 10 << 20][world.draw(3) as usize];
    config.open_files = world.draw(3) as usize;
    if !conditions.has_short_timeouts {
        let timeouts = &mut config.timeouts;
        (timeouts.handshake, timeouts.request) = (TIMEOUT, TIMEOUT);
        (timeouts.idle, timeouts.send) = (TIMEOUT, TIMEOUT);
        config.max_queue_delay = None;
    }
    if world.draw(4) == 0 {
        config.timeouts.revalidate = Duration::from_millis(world.draw(3));
    }
    let Features { compresses, precompressed, lists, error_page, logs, tls } = conditions.features;
    let host = &mut config.hosts[0];
    host.symlinks = Symlinks::Follow;
    (host.compress, host.precompressed, host.listing) = (compresses, precompressed, lists);
    if error_page {
        host.error_pages = vec![(404, ERROR_PAGE.to_owned())];
    }
    if logs {
        // Lines are formatted and discarded.
        let target = LogTarget::File("/dev/null".into());
        config.access_log = Some(AccessLog { format: LogFormat::Json, target });
    }
    config.listen = vec![Scheme::Http.at(address())];
    if tls {
        let [certificate, key] = IDENTITY.files();
        host.tls = Some(Tls { certificate, key });
        config.listen = vec![Scheme::Https.at(address())];
    }
    let seed = world.seed();
    if seed.is_multiple_of(4) {
        config.measurement = MeasurementSettings {
            unbounded_cohorts: seed & 4 != 0,
            memory_budget: seed & 8 != 0,
            unpooled_buffers: seed & 16 != 0,
        };
    }
    // A cached file that cannot be checked, because the disk fails, may be used for longer.
    let max_age =
        if conditions.has_faults { TIMEOUT } else { config.timeouts.revalidate + MAX_LOAD_TIME };
    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, [world.root()]).expect("all is there");
    let listeners = world.listen(address());
    world.program(graph, move |start| Ok(server.accept([listeners.listener(start)?])?));
    max_age
}
