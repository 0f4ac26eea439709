//! A broker under measurement; it is ready when it accepts a connection.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phalanx_mqtt::QoS;

use super::Options;
use super::shape::{Setting, Shape};
use crate::error::Error;
use crate::runner::{Environment, Peer, SetupOptions, Tuned};
use crate::system::{Process, ReservedPort, START_TIMEOUT, listens, process};

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
    /// The commands of a peer, one per tuning; none if it is not installed.
    pub(crate) fn tuned(&self, peer: &Peer) -> Result<Vec<Tuned>, Error> {
        let Some(path) = peer.find_or_tell() else { return Ok(Vec::new()) };
        let environment = Environment::new(self.directory, self.processors, self.cores.len());
        Ok(peer.tuned(&path, &environment)?)
    }

    /// Starts a peer in each tuning.
    pub(crate) fn peer(&self, peer: &Peer) -> Result<Vec<Server>, Error> {
        let start = |Tuned { name, command, port }| {
            let process = self.start(START_TIMEOUT, name, command, Some(port))?;
            Ok(Server { name: name.to_owned(), is_peer: true, keeps: false, process })
        };
        self.tuned(peer)?.into_iter().map(start).collect()
    }

    /// Starts a process that listens on `port`, or announces its address.
    pub(crate) fn start(
        &self,
        timeout: Duration,
        name: &str,
        command: Command,
        port: Option<ReservedPort>,
    ) -> Result<Process, Error> {
        let program = (name, command, port);
        Process::start_within(timeout, program, self.cores, self.directory, listens)
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
    let process = home.start(START_TIMEOUT, name, command, None)?;
    Ok(Server { name: name.to_owned(), is_peer: false, keeps, process })
}
