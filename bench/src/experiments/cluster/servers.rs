//! The processes: a single broker, NATS, and the nodes of a cluster.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Options;
use crate::error::Error;
use crate::experiments::broker::server::{self, Home};
use crate::experiments::state::client::{Client, Lasts};
use crate::system::process::find;
use crate::system::{Process, ReservedPort, interrupted, listens};

/// Time limit for the connections between the nodes.
const LANES: Duration = Duration::from_secs(60);

/// Wait between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

pub(super) const NODES: [&str; 3] = ["a", "b", "c"];

/// Where the state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In memory, with one NATS server.
    InMemory,
    /// On the disks of all brokers, and of three NATS servers that have copies of the nodes' sessions.
    Kept,
}

/// All running processes.
pub(super) struct Servers {
    pub(super) state: State,
    pub(super) one: Process,
    pub(super) nats: Vec<Process>,
    pub(super) nodes: Vec<Process>,
}

impl Servers {
    pub(super) fn start(state: State, options: &Options, home: Home<'_>) -> Result<Self, Error> {
        let Home { directory, cores, processors } = home;
        let nats = start_nats(state, home)?;
        let broker = |name: &str, arguments: &[&str]| {
            let mut command = server::command(&options.runner.setup, &options.driver, processors);
            match state {
                State::InMemory => command.arg("--ephemeral"),
                State::Kept => command.arg("--persistence-dir").arg(data(directory, name)),
            };
            command.args(arguments);
            Process::start(name, command, None, cores, directory, listens)
        };
        let one = broker("one", &[])?;
        let urls: Vec<_> = nats.iter().map(|server| format!("nats://{}", server.address)).collect();
        let node = |(n, name): (usize, &&str)| {
            // Each begins with another server.
            let order = urls.iter().cycle().skip(n).take(urls.len()).cloned();
            let order = order.collect::<Vec<_>>().join(",");
            let keep = (state == State::Kept).then_some("--cluster-keep-sessions");
            let arguments = ["--cluster", &order, "--node-name", name].into_iter().chain(keep);
            broker(name, &arguments.collect::<Vec<_>>())
        };
        let nodes = NODES.iter().enumerate().map(node).collect::<Result<Vec<_>, _>>()?;
        let own = Self { state, one, nats, nodes };
        own.await_lanes()?;
        Ok(own)
    }

    /// Waits until a message from each node arrives at all others. Until then a SUBACK does not wait for them.
    fn await_lanes(&self) -> Result<(), Error> {
        let begun = Instant::now();
        for from in &self.nodes {
            for to in self.nodes.iter().filter(|to| to.address != from.address) {
                // A node without a lease refuses clients.
                while !arrives(from.address, to.address).unwrap_or(false) {
                    interrupted()?;
                    if begun.elapsed() > LANES {
                        let why = "the nodes do not find each other";
                        return Err(Error::server("the cluster", why));
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
        Ok(())
    }

    /// The process identifiers of the nodes, and those of the NATS servers.
    pub(super) fn families(&self) -> [Vec<u32>; 2] {
        [&self.nodes, &self.nats]
            .map(|all| all.iter().flat_map(|process| &process.family).copied().collect())
    }
}

/// Whether a message from one node arrives at another one.
fn arrives(from: SocketAddr, to: SocketAddr) -> Result<bool, Error> {
    let topic = format!("lanes/{}/{}", from.port(), to.port());
    let mut subscriber = Client::connect(to, &format!("to/{topic}"), Lasts::Connection)?;
    subscriber.subscribe(&topic)?;
    let mut publisher = Client::connect(from, &format!("from/{topic}"), Lasts::Connection)?;
    publisher.publish((1, 1), |_| topic.clone(), (1, false))?;
    Ok(subscriber.receive(1)? == 1)
}

/// The folder of a process's state.
fn data(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}-data"))
}

fn nats_server() -> Result<PathBuf, Error> {
    let why = "it is not installed (Debian: apt-get install nats-server)";
    find("nats-server").ok_or_else(|| Error::server("nats-server", why))
}

/// The version of nats-server.
pub(super) fn version() -> Result<String, Error> {
    let output = Command::new(nats_server()?).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn start_nats(state: State, home: Home<'_>) -> Result<Vec<Process>, Error> {
    let Home { directory, cores, .. } = home;
    let program = nats_server()?;
    let count = if state == State::Kept { 3 } else { 1 };
    let ports = (0..count).map(|_| Ok((ReservedPort::take()?, ReservedPort::take()?)));
    let ports = ports.collect::<io::Result<Vec<_>>>()?;
    let routes = ports.iter().map(|(_, route)| format!("nats://127.0.0.1:{}", route.number()));
    let routes = routes.collect::<Vec<_>>().join(",");
    let server = |(n, (port, route)): (usize, (ReservedPort, ReservedPort))| {
        let name = format!("nats-{}", n + 1);
        let mut command = Command::new(&program);
        command.args(["-a", "127.0.0.1", "-p", &port.number().to_string()]);
        if state == State::Kept {
            let own = format!("nats://127.0.0.1:{}", route.give_up());
            command.args(["-n", &name, "--cluster_name", "servers", "--cluster", &own]);
            command.args(["--routes", &routes, "-js", "-sd"]).arg(data(directory, &name));
        }
        Process::start(&name, command, Some(port), cores, directory, listens)
    };
    ports.into_iter().enumerate().map(server).collect()
}
