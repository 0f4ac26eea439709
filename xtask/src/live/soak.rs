//! `cargo xtask soak`: mixed load for minutes, followed by a check for leaks.
//!
//! Clients request small and large files one by one and pipelined, disconnect in the middle of answers and of
//! requests, and are killed in groups. Files are replaced, and truncated while they are sent. The cache is
//! smaller than the site. The configuration is changed and reloaded, and the last one must be in effect at the
//! end. Each answer is checked: it must be one version of its file throughout, and one that the file had during
//! the request or shortly before.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::server::{Client, Server};
use super::{Home, binary};
use crate::task::Outcome;

/// File sizes: below and above the bound for caching whole, and too large to be cached.
const SIZES: [usize; 6] = [1, 3_000, 60_000, 70_000, 400_000, 3_000_000];
/// Unchanging files, more than fit in the cache.
const STABLE: usize = 60;
/// Files that are replaced continuously.
const CHANGING_FILES: usize = 6;
/// Cache size, and the maximum age of a cached file: revalidation after one second, plus slack for a stalled
/// machine.
const CACHE: &str = "8M";
const MAX_STALENESS: Duration = Duration::from_secs(4);
const CLIENTS: u64 = 6;
/// Response header field with the version of the configuration.
const VERSION_FIELD: &str = "X-Number";
/// Connections of a client that is killed.
const KILLED_CONNECTIONS: &str = "24";
/// Maximum growth of resident memory from the first tenth of the load to its end, in bytes.
const MAX_GROWTH: u64 = 24 << 20;

/// State shared by all threads.
struct Shared {
    address: SocketAddr,
    root: PathBuf,
    binary: PathBuf,
    /// The configuration, and the number of its changes.
    configuration: PathBuf,
    reloads: AtomicU64,
    killed: AtomicU64,
    is_over: AtomicBool,
    answers: AtomicU64,
    disconnects: AtomicU64,
    /// For each changing file, the time and number of each version.
    versions: Vec<Mutex<Vec<(Instant, u64)>>>,
    faults: Mutex<Vec<String>>,
}

/// Runs the load for some seconds.
pub(crate) fn run(root: &Path, seconds: u64) -> Outcome {
    let home = Home::create("soak")?;
    for n in 0..STABLE {
        let content = content(n as u64, SIZES[n % SIZES.len()]);
        std::fs::write(home.root().join(format!("stable-{n}")), content)?;
    }
    std::fs::write(home.root().join("cut"), vec![b'c'; 2_000_000])?;
    let binary = binary(root)?;
    let admin = free_port()?.to_string();
    let configuration = home.0.join("web.toml");
    configure(&configuration, 0)?;
    let file = configuration.to_str().ok_or("the name of the temporary directory is not UTF-8")?;
    let mut server = Server::start(
        &binary,
        &home.root(),
        &[
            &["--workers", "2", "--cache", CACHE, "--admin", &admin][..],
            &["--request-timeout", "2s", "--config", file],
        ]
        .concat(),
    )?;
    let shared = Shared {
        address: server.address,
        root: home.root(),
        binary,
        configuration: configuration.clone(),
        reloads: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        disconnects: AtomicU64::new(0),
        versions: (0..CHANGING_FILES).map(|_| Mutex::default()).collect(),
        faults: Mutex::default(),
    };
    (0..CHANGING_FILES).try_for_each(|n| shared.replace(n, 1))?;
    let admin: SocketAddr = admin.parse().map_err(|_| "no address")?;
    println!("mixed load for {seconds} s");

    shared.load(&mut server, Duration::from_secs(seconds / 10 + 1))?;
    let before = at_rest(&server, admin)?;
    println!("after the first tenth: {before}");
    shared.load(&mut server, Duration::from_secs(seconds))?;
    let after = at_rest(&server, admin)?;
    println!("at the end:            {after}");
    println!(
        "{} answers checked, {} connections left early, {} clients killed, {} reloads",
        shared.answers.load(Ordering::Relaxed),
        shared.disconnects.load(Ordering::Relaxed),
        shared.killed.load(Ordering::Relaxed),
        shared.reloads.load(Ordering::Relaxed),
    );
    let last = shared.reloads.load(Ordering::Relaxed);
    if !shared.serves(last) {
        shared.fault(format!("the last configuration, number {last}, is not served"));
    }
    let mut faults = shared.faults.into_inner().unwrap_or_default();
    if after.operations > before.operations {
        faults.push("operations leaked".to_owned());
    }
    // Cached files stay open, and the set of cached files varies.
    if after.descriptors > before.descriptors + 64 {
        faults.push("descriptors leaked".to_owned());
    }
    if after.memory > before.memory + MAX_GROWTH {
        faults.push("memory has grown".to_owned());
    }
    if !server.end()? {
        faults.push("the server did not exit successfully".to_owned());
    }
    faults.iter().take(20).for_each(|fault| println!("FAULT: {fault}"));
    Ok(faults.is_empty())
}

/// Atomically writes a configuration that adds its number to each answer.
fn configure(file: &Path, number: u64) -> std::io::Result<()> {
    let text = format!(
        "[[host.header]]\npath = \"/**\"\nname = \"{VERSION_FIELD}\"\nvalue = \"{number}\"\n"
    );
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, file)
}

fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// Resources of the server.
struct Held {
    operations: u64,
    descriptors: usize,
    memory: u64,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operations, descriptors, memory } = self;
        write!(f, "{operations} operations, {descriptors} descriptors, {} KiB", memory >> 10)
    }
}

/// Waits until the resources are stable.
fn at_rest(server: &Server, admin: SocketAddr) -> Result<Held, String> {
    let measure = || -> std::io::Result<Held> {
        let snapshot = Client::connect(admin)?.get("/snapshot.json")?;
        let text = String::from_utf8_lossy(&snapshot.body).into_owned();
        let numbers = text.split("\"operations\":").skip(1).filter_map(|rest| {
            let digits = rest.trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse::<u64>().ok()
        });
        Ok(Held {
            operations: numbers.sum(),
            descriptors: server.descriptors()?,
            memory: server.memory()?,
        })
    };
    stable(Duration::from_millis(500), measure)
}

/// Looks until two results in a row have the same operations and descriptors.
///
/// # Errors
/// If they are not the same after 60 times, or `measure` fails.
fn stable(
    pause: Duration,
    mut measure: impl FnMut() -> std::io::Result<Held>,
) -> Result<Held, String> {
    let mut last: Option<Held> = None;
    for _ in 0..60 {
        thread::sleep(pause);
        let held = measure().map_err(|error| format!("cannot read its metrics: {error}"))?;
        let same = |last: &Held| {
            (last.operations, last.descriptors) == (held.operations, held.descriptors)
        };
        if last.as_ref().is_some_and(same) {
            return Ok(held);
        }
        last = Some(held);
    }
    let last = last.map_or_else(String::new, |last| format!(": {last}"));
    Err(format!("its resources do not become stable{last}"))
}

/// The content of a file at a version; each part identifies the version.
fn content(version: u64, length: usize) -> Vec<u8> {
    let length = length.max(8);
    let mut bytes = version.to_le_bytes().repeat(length.div_ceil(8));
    bytes.truncate(length);
    bytes
}

/// The version of a complete content.
fn version(bytes: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    (bytes == content(version, bytes.len())).then_some(version)
}

impl Shared {
    fn fault(&self, message: String) {
        if let Ok(mut faults) = self.faults.lock() {
            faults.push(message);
        }
    }

    /// Atomically replaces a changing file with its next version.
    fn replace(&self, n: usize, version: u64) -> std::io::Result<()> {
        let (new, path) =
            (self.root.join(format!(".new-{n}")), self.root.join(format!("changing-{n}")));
        std::fs::write(&new, content(version, SIZES[1 + n % (SIZES.len() - 1)]))?;
        let mut versions = self.versions[n].lock().expect("whole");
        std::fs::rename(new, path)?;
        versions.push((Instant::now(), version));
        Ok(())
    }

    /// Whether the file had this version between `begun` and now, or shortly before.
    fn was_current(&self, n: usize, version: u64, start: Instant) -> bool {
        let versions = self.versions[n].lock().expect("whole");
        let at = versions.iter().position(|(_, one)| *one == version);
        // A version ends when the next one begins.
        at.is_some_and(|at| {
            versions.get(at + 1).is_none_or(|(end, _)| *end + MAX_STALENESS >= start)
        })
    }

    /// Loads the server for the given time.
    fn load(&self, server: &mut Server, during: Duration) -> Result<(), String> {
        self.is_over.store(false, Ordering::Relaxed);
        let start = Instant::now();
        let result = thread::scope(|scope| {
            for seed in 0..CLIENTS {
                scope.spawn(move || self.client(seed));
            }
            scope.spawn(|| self.change_files());
            scope.spawn(|| self.kill());
            let mut next = Duration::from_secs(2);
            while start.elapsed() < during {
                thread::sleep(Duration::from_millis(100));
                if !server.is_running() {
                    break;
                }
                if start.elapsed() > next {
                    next += Duration::from_secs(2);
                    let number = self.reloads.fetch_add(1, Ordering::Relaxed) + 1;
                    let changed = configure(&self.configuration, number);
                    if let Err(error) = changed.and_then(|()| server.signal("HUP")) {
                        self.fault(format!("cannot reload the configuration: {error}"));
                    }
                }
            }
            self.is_over.store(true, Ordering::Relaxed);
            server.is_running()
        });
        result.then_some(()).ok_or_else(|| "the server has exited".to_owned())
    }

    /// Replaces files; truncates one and extends it again.
    fn change_files(&self) {
        let mut random = Rng::with_seed(77);
        while !self.is_over.load(Ordering::Relaxed) {
            let n = random.u64(..CHANGING_FILES as u64) as usize;
            let last = self.versions[n].lock().expect("whole").last().map_or(0, |last| last.1);
            if let Err(error) = self.replace(n, last + 1) {
                self.fault(format!("cannot replace a file: {error}"));
            }
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(self.root.join("cut")) {
                let _ = file.set_len(random.u64(..100_000));
                let _ = (&file).write_all(&vec![b'c'; 2_000_000]);
            }
            thread::sleep(Duration::from_millis(20 + random.u64(..200)));
        }
    }

    /// Starts clients with many connections and kills them before they finish.
    fn kill(&self) {
        let mut random = Rng::with_seed(99);
        while !self.is_over.load(Ordering::Relaxed) {
            let url = format!("http://{}/stable-4", self.address);
            let mut load = Command::new(&self.binary);
            load.args(["load", &*url, "--connections", KILLED_CONNECTIONS, "--duration", "60"]);
            let load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            thread::sleep(Duration::from_millis(100 + random.u64(..500)));
            match load.and_then(|mut load| load.kill().and_then(|()| load.wait())) {
                Ok(_) => drop(self.killed.fetch_add(1, Ordering::Relaxed)),
                Err(error) => self.fault(format!("cannot start a client to be killed: {error}")),
            }
            thread::sleep(Duration::from_millis(500 + random.u64(..1000)));
        }
    }

    /// Whether the server comes to serve the configuration of this number.
    fn serves(&self, number: u64) -> bool {
        let line = format!("\r\n{VERSION_FIELD}: {number}\r\n");
        let request =
            || Client::connect(self.address).and_then(|mut client| client.get("/stable-0"));
        (0..100).any(|_| {
            thread::sleep(Duration::from_millis(100));
            request().is_ok_and(|answer| answer.head.contains(&line))
        })
    }

    /// Runs one client after another.
    fn client(&self, seed: u64) {
        let mut random = Rng::with_seed(seed + 1);
        while !self.is_over.load(Ordering::Relaxed) {
            match random.u64(..10) {
                0 => self.disconnect_midway(&mut random),
                1 => self.cut(),
                _ => {
                    if let Err(error) = self.converse(&mut random) {
                        self.fault(error);
                    }
                }
            }
        }
    }

    /// Disconnects in the middle of a request or an answer.
    fn disconnect_midway(&self, random: &mut Rng) {
        let Ok(Client { mut stream, .. }) = Client::connect(self.address) else { return };
        let n = random.u64(..STABLE as u64);
        let request = format!("GET /stable-{n} HTTP/1.1\r\nHost: soak\r\n\r\n").repeat(3);
        let length = random.u64(..request.len() as u64) as usize;
        let _ = stream.write_all(&request.as_bytes()[..length]);
        if random.u64(..2) == 0 {
            let mut piece = [0; 1000];
            let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
            let _ = std::io::Read::read(&mut stream, &mut piece);
        }
        self.disconnects.fetch_add(1, Ordering::Relaxed);
    }

    /// A truncated file may end its connection, but must not contain a wrong byte.
    fn cut(&self) {
        let Ok(mut client) = Client::connect(self.address) else { return };
        let Ok(answer) = client.get("/cut") else { return };
        // Between truncation and the next write, parts of the file are holes.
        let is_intact = answer.body.iter().all(|byte| *byte == b'c' || *byte == 0);
        if !(answer.status == 200 && is_intact || matches!(answer.status, 500 | 503)) {
            self.fault(format!("status {} and wrong bytes for a truncated file", answer.status));
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends several requests on one connection, some of them pipelined.
    fn converse(&self, random: &mut Rng) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("no answer: {error}");
        let mut client = Client::connect(self.address).map_err(failed)?;
        for _ in 0..1 + random.u64(..20) {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let depth = match random.u64(..4) {
                0 => 1 + random.u64(..16),
                _ => 1,
            };
            let request: Vec<_> = (0..depth)
                .map(|_| match random.u64(..3) {
                    0 => ("changing", random.u64(..CHANGING_FILES as u64) as usize),
                    _ => ("stable", random.u64(..STABLE as u64) as usize),
                })
                .collect();
            let lines = request
                .iter()
                .map(|(kind, n)| format!("GET /{kind}-{n} HTTP/1.1\r\nHost: soak\r\n\r\n"));
            let start = Instant::now();
            client.stream.write_all(lines.collect::<String>().as_bytes()).map_err(failed)?;
            for (kind, n) in request {
                let answer = client.answer().map_err(failed)?;
                self.answers.fetch_add(1, Ordering::Relaxed);
                // Rejected by overload control, which is a valid answer.
                if answer.status == 503 {
                    continue;
                }
                let version = version(&answer.body);
                let is_intact = match kind {
                    "stable" => version == Some(n as u64),
                    _ => version.is_some_and(|version| self.was_current(n, version, start)),
                };
                if answer.status != 200 || !is_intact {
                    let length = answer.body.len();
                    return Err(format!(
                        "{} and {length} bytes of version {version:?} for {kind}-{n}",
                        answer.status,
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_change_are_an_error() {
        let held = |operations| Held { operations, descriptors: 9, memory: 1 << 20 };
        let mut samples = 0..;
        let unstable = stable(Duration::ZERO, || Ok(held(samples.next().unwrap_or(0))));
        assert!(unstable.is_err_and(|reason| reason.contains("59 operations")));
        let mut samples = 0..;
        let settled_state = stable(Duration::ZERO, || Ok(held(samples.next().unwrap_or(0).min(5))));
        assert_eq!(settled_state.map(|held| held.operations), Ok(5));
    }
}
