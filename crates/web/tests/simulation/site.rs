//! What is served, by which server: drawn by the seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::{Bytes, Listener};
use phalanx::sim::World;
use phalanx_web::{AccessLog, Config, Listen, LogFormat, LogTarget, Server, Symlinks, Tls};

use crate::wire::IDENTITY;

/// Longer than anything takes, however time jumps.
const LONG: Duration = Duration::from_secs(1 << 30);

/// What the disk holds, by its path, in all of its versions.
pub(crate) type Files = BTreeMap<&'static str, Vec<Bytes>>;

/// What a run is like for its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// The network or the disk fails.
    pub(crate) fails: bool,
    /// The server waits for nobody for long, or is asked to finish while its clients are there.
    pub(crate) hurries: bool,
    /// It is asked so.
    pub(crate) finishes: bool,
    pub(crate) features: Features,
}

/// What the server can do beside sending files as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) compresses: bool,
    /// Neighbours that are compressed already are sent, too.
    pub(crate) precompressed: bool,
    pub(crate) lists: bool,
    /// It has a page of its own for what is not there.
    pub(crate) error_page: bool,
    pub(crate) logs: bool,
    /// It speaks TLS, and nothing else.
    pub(crate) tls: bool,
}

impl Features {
    pub(crate) fn drawn(world: &mut World) -> Self {
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

/// When the changing file got each of its versions, and how old a cached one may be.
pub(crate) struct History {
    pub(crate) written: RefCell<Vec<Duration>>,
    pub(crate) stale: Duration,
}

impl History {
    /// Whether the file had this version at some moment from `begun` until `now`, or so shortly before
    /// that the cache need not have looked.
    pub(crate) fn had(&self, version: usize, begun: Duration, now: Duration) -> bool {
        let written = self.written.borrow();
        let replaced = written.get(version + 1);
        written.get(version).is_some_and(|from| *from <= now)
            && replaced.is_none_or(|until| *until + self.stale >= begun)
    }
}

/// From the moment at which a file is looked at until it is in the cache: what the simulated disk and
/// the queues take.
const LOADING: Duration = Duration::from_millis(250);

pub(crate) fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 80))
}

fn pattern(length: usize, from: usize) -> Bytes {
    (from..from + length).map(|n| (n ^ (n >> 8)) as u8).collect()
}

/// What is worth compressing.
fn text(length: usize, from: usize) -> Bytes {
    let lines = (from..).flat_map(|n| format!("line {n} of a text\n").into_bytes());
    lines.take(length).collect()
}

/// The file that changes.
pub(crate) const CHANGING: &str = "/changing.txt";
/// The directory that is listed, and what it holds.
pub(crate) const LISTED: (&str, [&str; 2]) = ("/listed/", ["one.txt", "two.bin"]);
/// The page for what is not there.
pub(crate) const ERROR_PAGE: &str = "/404.html";

/// Made once: a debug build is slow at it.
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
    // Some are kept compressed, and some are not.
    let version = |n: usize| [pattern(500 + 100 * n, 11 * n), text(1500 + 700 * n, 11 * n)];
    files.insert(CHANGING, (0..2).flat_map(version).collect());
    files
});

/// Puts all files on the disk, as they are at first.
pub(crate) fn fill(world: &mut World) {
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

/// Returns how old what is cached may be.
pub(crate) fn serve(world: &mut World, weather: Weather) -> Duration {
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    config.hash_seed = Some(world.seed());
    config.cache_bytes = [0, 100_000, 10 << 20][world.draw(3) as usize];
    config.open_files = world.draw(3) as usize;
    if !weather.hurries {
        let timeouts = &mut config.timeouts;
        (timeouts.handshake, timeouts.request) = (LONG, LONG);
        (timeouts.idle, timeouts.send) = (LONG, LONG);
        config.max_queue_delay = None;
    }
    if world.draw(4) == 0 {
        config.timeouts.revalidate = Duration::from_millis(world.draw(3));
    }
    let Features { compresses, precompressed, lists, error_page, logs, tls } = weather.features;
    let host = &mut config.hosts[0];
    host.symlinks = Symlinks::Follow;
    (host.compress, host.precompressed, host.listing) = (compresses, precompressed, lists);
    if error_page {
        host.error_pages = vec![(404, ERROR_PAGE.to_owned())];
    }
    if logs {
        // Lines are written, and go nowhere.
        let target = LogTarget::File("/dev/null".into());
        config.access_log = Some(AccessLog { format: LogFormat::Json, target });
    }
    config.listen = vec![Listen::plain(address())];
    if tls {
        let [certificate, key] = IDENTITY.files();
        host.tls = Some(Tls { certificate, key });
        config.listen = vec![Listen::tls(address())];
    }
    let stale = config.timeouts.revalidate + LOADING;
    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, [world.root()]).expect("all is there");
    let listeners = RefCell::new(world.listen(address()));
    world.program(graph, move |_| {
        let listener = listeners.borrow_mut().pop().expect("one for each");
        Ok(server.accept([Listener::new(listener)?])?)
    });
    stale
}
