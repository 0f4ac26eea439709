//! Servers with blocking threads: processor time per request.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Row;
use super::apache;
use super::load::Load;
use super::{Arm, Setting};
use crate::error::Error;
use crate::measure::{Stretch, measure_setting};
use crate::system::cores::bound;
use crate::system::{Process, ReservedPort, interrupted, process, run_time};

/// Bytes of an echoed message.
const MESSAGE: [u8; 64] = [b'm'; 64];
/// Bytes of a large response.
const LARGE: usize = 4 << 20;
const MEMCACHED_THREADS: &str = "4";
/// Bytes of its value.
const VALUE: usize = 100;

/// A server and its load.
struct Case {
    title: String,
    kind: Kind,
    connections: usize,
    request: Vec<u8>,
    /// Requests of a slice.
    requests: usize,
}

enum Kind {
    /// A program of `programs.c`, with its arguments.
    Own(Vec<String>),
    Apache(PathBuf),
    Memcached(PathBuf),
}

pub(super) fn run(setting: &Setting, rows: &mut Vec<Row>) -> Result<(), Error> {
    for case in cases(setting) {
        interrupted()?;
        let title = &case.title;
        let mut arms = Vec::new();
        for arm in Arm::ALL {
            arms.push(Running::start(setting, &case, arm)?);
        }
        let rounds = case.requests.div_ceil(case.connections).max(1);
        let turn = |arm: usize, _| {
            interrupted()?;
            arms[arm].slice(setting, title, rounds)
        };
        let turns = (Arm::ALL.len(), setting.rounds);
        measure_setting(title, turns, turn, |costs| rows.extend(Row::of(title, &costs)))?;
    }
    Ok(())
}

fn cases(setting: &Setting) -> Vec<Case> {
    let own = |arguments: &[&str]| Kind::Own(arguments.iter().map(|&text| text.into()).collect());
    let mut cases = Vec::new();
    for connections in [64, 1000] {
        cases.push(Case {
            title: format!("echo, {connections} threads, µs"),
            kind: own(&["echo"]),
            connections: setting.count(connections, 8),
            request: MESSAGE.to_vec(),
            requests: setting.count(40_000, 80),
        });
    }
    cases.push(Case {
        title: "4 MiB from blocking threads, µs".to_owned(),
        kind: own(&["send", &LARGE.to_string()]),
        connections: setting.count(16, 2),
        request: vec![b'r'],
        requests: setting.count(160, 2),
    });
    let installed = |program: &str, package: &str| {
        let found = process::find(program);
        if found.is_none() {
            eprintln!("{program} is not installed; apt-get install {package}");
        }
        found
    };
    if let Some(program) = installed("apache2", "apache2") {
        // Four servers start for each file.
        let files = setting.count(apache::FILES.len(), 1);
        for (name, requests) in apache::FILES.into_iter().take(files) {
            cases.push(Case {
                title: format!("Apache worker, {name}, µs"),
                kind: Kind::Apache(program.clone()),
                connections: setting.count(32, 2),
                request: format!("GET /{name} HTTP/1.1\r\nHost: bench\r\n\r\n").into_bytes(),
                requests: setting.count(requests, 2),
            });
        }
    }
    if let Some(program) = installed("memcached", "memcached") {
        cases.push(Case {
            title: "memcached get, µs".to_owned(),
            kind: Kind::Memcached(program),
            connections: setting.count(64, 2),
            request: b"get key\r\n".to_vec(),
            requests: setting.count(40_000, 20),
        });
    }
    cases
}

/// A server that runs in one way, with its load.
struct Running {
    arm: Arm,
    load: Load,
    server: Process,
}

impl Running {
    fn start(setting: &Setting, case: &Case, arm: Arm) -> Result<Self, Error> {
        let name = format!("{}-{}", arm.name().replace([' ', ',', '/'], "-"), case.connections);
        let own = |program: &Path| arm.command(&setting.phalanx, setting.carriers(), program);
        let port = match case.kind {
            Kind::Own(_) => None,
            Kind::Apache(_) | Kind::Memcached(_) => Some(ReservedPort::take()?),
        };
        let number = port.as_ref().map_or(0, ReservedPort::number);
        let command = match &case.kind {
            Kind::Own(arguments) => {
                let mut command = own(&setting.programs);
                command.args(arguments);
                command
            }
            Kind::Apache(program) => {
                let mut command = own(program);
                command.args(["-D", "FOREGROUND", "-f"]);
                command.arg(apache::configure(&setting.directory, number)?);
                command
            }
            Kind::Memcached(program) => memcached(own(program), number),
        };
        let cores = &setting.cores.server;
        let directory = &setting.directory;
        let mut server = Process::start(&name, command, port, cores, directory, process::listens)?;
        let failed = |error| Error::load(&name, error);
        if let Kind::Memcached(_) = case.kind {
            store(server.address).map_err(failed)?;
        }
        let open = || Load::open(server.address, case.connections, &case.request);
        let load = bound(&setting.cores.load, open)?.map_err(failed)?;
        // Apache starts its child processes while it listens.
        server.family = crate::system::procfs::family(server.family[0])?;
        Ok(Self { arm, load, server })
    }

    /// Microseconds of the server's processor time per request.
    fn slice(&mut self, setting: &Setting, title: &str, rounds: usize) -> Result<f64, Error> {
        let requests = rounds * self.load.connections();
        let stretch = Stretch::begin_of(&self.server.family);
        let before = run_time(&self.server.family)?;
        let load = &mut self.load;
        let sent = bound(&setting.cores.load, || (0..rounds).try_for_each(|_| load.round()))?;
        sent.map_err(|error| Error::load(self.arm.name(), error))?;
        let used = run_time(&self.server.family)? - before;
        stretch.end().of(format_args!("{title}, {}", self.arm.name()), requests);
        Ok(used * 1e6 / requests as f64)
    }
}

fn memcached(mut command: Command, port: u16) -> Command {
    command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-t", MEMCACHED_THREADS]);
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// Stores the value that the load gets.
fn store(server: std::net::SocketAddr) -> std::io::Result<()> {
    let mut request = format!("set key 0 0 {VALUE}\r\n").into_bytes();
    request.extend_from_slice(&[b'v'; VALUE]);
    request.extend_from_slice(b"\r\n");
    Load::open(server, 1, &request).map(drop)
}
