//! The processes: a single broker, NATS, and the nodes of a cluster.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Options;
use super::takeover::{LIMIT, takeover};
use crate::error::Error;
use crate::experiments::broker::server;
use crate::system::interrupt::interrupted;
use crate::system::process::{Process, ReservedPort, find, listens};

/// Time in which the nodes know each other.
const LANES: Duration = Duration::from_secs(30);

/// Names of the nodes.
const NODES: [&str; 3] = ["a", "b", "c"];

/// All running processes.
pub(super) struct Servers {
    pub(super) one: Process,
    pub(super) nats: Process,
    pub(super) nodes: Vec<Process>,
    /// The version of NATS.
    pub(super) version: String,
}

impl Servers {
    pub(super) fn start(
        options: &Options,
        directory: &Path,
        cores: &[usize],
        processors: usize,
    ) -> Result<Self, Error> {
        let missing = || Error::Server {
            name: "nats-server".into(),
            why: "it is not installed (Debian: apt-get install nats-server)".into(),
        };
        let program = find("nats-server").ok_or_else(missing)?;
        let version = Command::new(&program).arg("--version").output()?;
        let port = ReservedPort::take()?;
        let mut command = Command::new(&program);
        command.args(["-a", "127.0.0.1", "-p", &port.number().to_string()]);
        let nats = Process::start("nats-server", command, Some(port), cores, directory, listens)?;
        let broker = |name: &str, arguments: &[&str]| {
            let mut command = server::command(&options.runner.setup, &options.driver, processors);
            command.arg("--ephemeral").args(arguments);
            Process::start(name, command, None, cores, directory, listens)
        };
        let one = broker("one", &[])?;
        let url = format!("nats://{}", nats.address);
        let node = |name: &&str| broker(name, &["--cluster", &url, "--node-name", name]);
        let nodes = NODES.iter().map(node).collect::<Result<Vec<_>, _>>()?;
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        let own = Self { one, nats, nodes, version };
        own.await_lanes()?;
        Ok(own)
    }

    /// Waits until each node disconnects a client that connects elsewhere: it has lanes to all others.
    fn await_lanes(&self) -> Result<(), Error> {
        let begun = Instant::now();
        for from in &self.nodes {
            for to in self.nodes.iter().filter(|to| to.address != from.address) {
                while takeover((from.address, to.address), 1)?[0] >= LIMIT {
                    interrupted()?;
                    if begun.elapsed() > LANES {
                        let why = "the nodes do not find each other".to_owned();
                        return Err(Error::Server { name: "the cluster".into(), why });
                    }
                }
            }
        }
        Ok(())
    }

    /// The process identifiers of the nodes.
    pub(super) fn of_nodes(&self) -> Vec<u32> {
        self.nodes.iter().flat_map(|node| &node.family).copied().collect()
    }
}
