//! The example `kv` compared with redis, loaded by `redis-benchmark`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::report::{Arm, Slice, rows};
use super::{Options, Row};
use crate::error::Error;
use crate::measure::{CpuTimes, MAX_FOREIGN_SHARE, Stretch, measure_setting};
use crate::system::cores::spawn;
use crate::system::{Cores, Process, ReservedPort, interrupted, process, run_time};

const LOAD: &str = "redis-benchmark";
/// Number of keys, all of which exist.
const KEYS: usize = 100_000;
const VALUE_BYTES: usize = 64;
/// Keys that are set before their replies are read: both directions fit into the buffers of a socket.
const SET_TOGETHER: usize = 200;
/// Maximum time for a reply to a SET.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(options: &Options, cores: &Cores, all: &mut Vec<Row>) -> Result<(), Error> {
    let (Some(kv), Some(load)) = (process::beside("kv"), process::find(LOAD)) else {
        eprintln!(
            "kv is skipped; it requires `cargo build --release -p phalanx-kv` and apt-get install redis-tools"
        );
        return Ok(());
    };
    let redis = process::find("redis-server");
    if redis.is_none() {
        eprintln!("redis-server is not installed; apt-get install redis-server");
    }
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let (mut arms, mut servers) = (Vec::new(), Vec::new());
    for &processors in &options.processors {
        let on = options.server_cores(cores, processors);
        for (name, program) in [("kv", Some(&kv)), ("kv-pin", Some(&kv)), ("redis", redis.as_ref())]
        {
            let Some(program) = program.filter(|_| options.wants(name)) else { continue };
            let port = ReservedPort::take()?;
            let command = command(name, program, port.number(), processors, directory.path());
            let file = format!("{name}-{processors}");
            let home = directory.path();
            let server = Process::start(&file, command, Some(port), on, home, process::listens)?;
            arms.push(Arm { server: name, processors });
            servers.push(server);
        }
    }
    let load = Load { program: &load, cores };
    let family: Vec<u32> = servers.iter().flat_map(|server| &server.family).copied().collect();
    for server in &servers {
        fill(server.address)?;
    }
    for &connections in &options.connections {
        // Requests of a slice, by the rate of a short run.
        let mut rates = Vec::new();
        for server in &servers {
            let seen = load.run(server.address, "get", connections, 2000)?;
            rates.push((seen.per_s * options.slice.as_secs_f64()) as usize);
        }
        let what = format!("kv, {connections} connections");
        let turn = |arm: usize, _| {
            interrupted()?;
            let (server, requests) = (&servers[arm], rates[arm].max(1000));
            let times = || CpuTimes::take(cores, &family);
            let stretch = Stretch::begin_of(&server.family);
            let (began, before) = (times()?, run_time(&server.family)?);
            let seen = load.run(server.address, "get", connections, requests)?;
            let cpu_us = (run_time(&server.family)? - before) * 1e6 / requests as f64;
            let Arm { server: name, processors } = &arms[arm];
            stretch.end().of(format_args!("{name}, {what}, processors: {processors}"), requests);
            let noisy = began.foreign_until(&times()?, cores) > MAX_FOREIGN_SHARE;
            Ok(Slice { cpu_us, noisy, ..seen })
        };
        let add = |slices: Vec<_>| all.extend(rows("get", connections, &arms, &slices));
        measure_setting(&what, (arms.len(), options.rounds), turn, add)?;
    }
    Ok(())
}

fn command(name: &str, program: &Path, port: u16, processors: usize, home: &Path) -> Command {
    let mut command = Command::new(program);
    match name {
        "redis" => {
            command.args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
            command.arg("--dir").arg(home).args(["--io-threads", &processors.to_string()]);
            command.args(["--io-threads-do-reads", "yes", "--bind", "127.0.0.1"])
        }
        _ => {
            command.args(["--listen", &format!("127.0.0.1:{port}")]);
            command.args(["--processors", &processors.to_string()]);
            command.args((name == "kv-pin").then_some("--pin"))
        }
    };
    command
}

/// Sets every key that the load generator may request. Its own SETs have random keys, and would leave out a third.
fn fill(server: SocketAddr) -> io::Result<()> {
    const OK: &[u8] = b"+OK\r\n";
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let value = "x".repeat(VALUE_BYTES);
    for first in (0..KEYS).step_by(SET_TOGETHER) {
        let keys = first..KEYS.min(first + SET_TOGETHER);
        let set = |key: usize| {
            // The name that redis-benchmark gives it.
            let name = format!("key:{key:012}");
            let bytes = name.len();
            format!("*3\r\n$3\r\nSET\r\n${bytes}\r\n{name}\r\n${VALUE_BYTES}\r\n{value}\r\n")
        };
        let requests: String = keys.clone().map(set).collect();
        stream.write_all(requests.as_bytes())?;
        let mut replies = vec![0; keys.len() * OK.len()];
        stream.read_exact(&mut replies)?;
        if replies != OK.repeat(keys.len()) {
            let text = String::from_utf8_lossy(&replies);
            return Err(io::Error::other(format!("a key is not set: {}", text.trim())));
        }
    }
    Ok(())
}

/// The load generator.
struct Load<'a> {
    program: &'a PathBuf,
    cores: &'a Cores,
}

impl Load<'_> {
    /// Sends this number of requests; the processor time and the noise are not filled in.
    fn run(
        &self,
        server: SocketAddr,
        test: &str,
        connections: usize,
        requests: usize,
    ) -> Result<Slice, Error> {
        let mut command = Command::new(self.program);
        command.args(["-p", &server.port().to_string(), "-t", test, "--csv"]);
        command.args(["-c", &connections.to_string(), "-n", &requests.to_string()]);
        command.args(["-r", &KEYS.to_string(), "-d", &VALUE_BYTES.to_string()]);
        let threads = if self.cores.are_shared() { 1 } else { self.cores.load.len() };
        if threads > 1 {
            command.args(["--threads", &threads.to_string()]);
        }
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
        let output = spawn(&self.cores.load, &mut command)?.wait_with_output()?;
        // The signal that ends this run ends the load, too.
        interrupted()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = || Error::load(LOAD, text.trim());
        let (per_s, p99_ms) = parse(&text).ok_or_else(failed)?;
        Ok(Slice { cpu_us: f64::NAN, per_s, p99_us: p99_ms * 1e3, noisy: false })
    }
}

/// Requests per second and 99th percentile in milliseconds, from the last line of the output.
fn parse(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().rfind(|line| line.starts_with('"'))?;
    let fields: Vec<f64> =
        line.split(',').skip(1).filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    Some((*fields.first()?, *fields.get(5)?))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;

    /// Accepts the first `good` keys, and returns their names.
    fn store(listener: &TcpListener, good: usize) -> HashSet<String> {
        let (mut stream, _) = listener.accept().unwrap();
        // Otherwise each reply would wait for the acknowledgement of the reply before.
        stream.set_nodelay(true).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let names = lines.map_while(Result::ok).filter(|line| line.starts_with("key:"));
        let mut keys = HashSet::new();
        for (n, name) in names.enumerate() {
            keys.insert(name);
            stream.write_all(if n < good { b"+OK\r\n" } else { b"-ER\r\n" }).unwrap();
        }
        keys
    }

    #[test]
    fn every_key_is_set() {
        for good in [KEYS, KEYS - 1] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || store(&listener, good));
            assert_eq!(fill(address).is_ok(), good == KEYS);
            let keys = server.join().unwrap();
            assert_eq!(keys.len(), KEYS);
            assert!(keys.contains("key:000000000000") && keys.contains("key:000000099999"));
        }
    }

    #[test]
    fn the_csv_is_parsed() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"GET\",\"66666.66\",\"0.457\",\"0.080\",\"0.447\",\"0.703\",\"1.119\",\"2.263\"\n";
        assert_eq!(super::parse(text), Some((66666.66, 1.119)));
        assert_eq!(super::parse("refused"), None);
    }
}
