//! A broker under measurement; it is ready when it accepts a connection.

use std::path::Path;
use std::process::Command;

use phalanx_mqtt::QoS;

use super::Options;
use super::shape::{Setting, Shape};
use crate::error::Error;
use crate::runner::{Environment, Peer, SetupOptions, Tuned};
use crate::system::{Process, ReservedPort, process};

/// A running broker.
pub(crate) struct Server {
    pub(crate) name: String,
    /// Whether it is a peer, rather than Phalanx.
    pub(crate) is_peer: bool,
    /// Whether it journals acknowledged messages.
    pub(crate) keeps: bool,
    pub(crate) process: Process,
}

impl Server {
    /// Whether it is measured in this setting.
    pub(crate) fn joins(&self, setting: Setting) -> bool {
        match setting.shape {
            // Peers have no such filters.
            Shape::Filters => !self.is_peer && !self.keeps,
            // Only acknowledged messages are journaled.
            shape => !self.keeps || (setting.qos != QoS::AtMostOnce && shape.rate().is_none()),
        }
    }
}

/// Folder, cores and processors of the brokers to start.
#[derive(Clone, Copy)]
pub(crate) struct Home<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) cores: &'a [usize],
    pub(crate) processors: usize,
}

impl Home<'_> {
    /// Starts a peer in each tuning; says how to install it if it is missing.
    pub(crate) fn peer(&self, peer: &Peer) -> Result<Vec<Server>, Error> {
        let Some(path) = peer.find() else {
            eprintln!("{} is not installed and is skipped; {}", peer.name(), peer.install);
            return Ok(Vec::new());
        };
        let tuned = peer
            .tuned(&path, &Environment::new(self.directory, self.processors, self.cores.len()))?;
        let start = |Tuned { name, command, port }| self.start(name, command, Some(port));
        tuned.into_iter().map(start).collect()
    }

    /// Starts a broker that listens on `port`, or announces its address.
    fn start(
        &self,
        name: &str,
        command: Command,
        port: Option<ReservedPort>,
    ) -> Result<Server, Error> {
        let Self { directory, cores, .. } = *self;
        let process = Process::start(name, command, port, cores, directory, process::listens)?;
        Ok(Server { name: name.to_owned(), is_peer: true, keeps: false, process })
    }
}

/// `phalanx broker` with this driver and number of workers, which announces its address.
pub(crate) fn command(setup: &SetupOptions, driver: &str, processors: usize) -> Command {
    let mut command = Command::new(process::phalanx(setup.phalanx.as_deref()));
    command.args(["broker", "--listen", "127.0.0.1:0", "--driver", driver]);
    command.arg(format!("--workers={processors}"));
    command
}

/// `phalanx broker`: in memory; as `phalanx-kept` with a persistence directory; as `phalanx-pin` with threads
/// bound to cores.
pub(crate) fn phalanx(name: &str, options: &Options, home: &Home<'_>) -> Result<Server, Error> {
    let mut command = self::command(&options.runner.setup, &options.driver, home.processors);
    let keeps = name == "phalanx-kept";
    match keeps {
        true => command.arg("--persistence-dir").arg(home.directory.join("data")),
        false => command.arg("--ephemeral"),
    };
    command.args((name == "phalanx-pin").then_some("--pin"));
    Ok(Server { keeps, is_peer: false, ..home.start(name, command, None)? })
}
