//! The brokers, in memory and with their state in a directory.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Options;
use crate::error::Error;
use crate::experiments::broker::server::command;
use crate::runner::{BROKERS, Environment, Peer};
use crate::system::process::find;
use crate::system::{Process, ReservedPort, listens};

const RESTART_TIMEOUT: Duration = Duration::from_secs(120);

/// A broker to measure.
#[derive(Clone, Copy)]
pub(super) enum Broker {
    Phalanx,
    Peer(&'static Peer),
}

/// Folder, cores and processors.
#[derive(Clone, Copy)]
pub(super) struct Home<'a> {
    pub(super) directory: &'a Path,
    pub(super) cores: &'a [usize],
    pub(super) processors: usize,
    pub(super) options: &'a Options,
}

impl Broker {
    /// All that are wanted and installed.
    pub(super) fn all(options: &Options) -> Vec<Self> {
        let peers = BROKERS.iter().filter(|peer| match peer.find() {
            Some(_) => true,
            None => {
                eprintln!("{} is not installed and is skipped; {}", peer.name(), peer.install);
                false
            }
        });
        let all = std::iter::once(Self::Phalanx).chain(peers.map(Self::Peer));
        all.filter(|one| options.wants(one.name())).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Phalanx => "phalanx",
            Self::Peer(peer) => peer.name(),
        }
    }

    /// Whether it restores its state.
    pub(super) fn stores(self) -> bool {
        matches!(self.name(), "phalanx" | "mosquitto")
    }

    /// Starts it in memory.
    pub(super) fn start(self, home: &Home<'_>) -> Result<Process, Error> {
        match self {
            Self::Phalanx => home.phalanx(&["--ephemeral"]),
            Self::Peer(peer) => {
                let path = peer.find().expect("it is installed");
                let (processors, cores) = (home.processors, home.cores.len());
                let environment = Environment::new(home.directory, processors, cores);
                let tuned = peer.tuned(&path, &environment)?;
                let first = tuned.into_iter().next().expect("a peer has a tuning");
                let (command, port) = (first.command, Some(first.port));
                Process::start(first.name, command, port, home.cores, home.directory, listens)
            }
        }
    }

    /// Starts it with its state in the directory.
    pub(super) fn start_stored(self, home: &Home<'_>) -> Result<Process, Error> {
        let state = home.directory.join("state");
        std::fs::create_dir_all(&state)?;
        if let Self::Phalanx = self {
            let why = "the directory for temporary files is not UTF-8";
            let state = state.to_str().ok_or_else(|| Error::server("phalanx", why))?;
            let most = format!("--max-retained={}", home.options.retained);
            let most = [&*most, "--max-retained-bytes=64GiB"];
            return home.phalanx(&[&["--persistence-dir", state], &most[..]].concat());
        }
        let (port, file) = (ReservedPort::take()?, home.directory.join("stored.conf"));
        let (number, path) = (port.number(), state.display());
        // It saves at its end only. Another user could not write to the directory.
        let user = if rustix::process::geteuid().is_root() { "user root\n" } else { "" };
        let text = format!(
            "{user}listener {number} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {path}/\n\
             autosave_interval 0\nlog_type none\nmax_queued_messages 0\nmax_inflight_messages 0\nsys_interval 0\n\
             set_tcp_nodelay true\n"
        );
        std::fs::write(&file, text)?;
        let mut command = Command::new(find("mosquitto").expect("it is installed"));
        command.arg("-c").arg(&file);
        home.start("mosquitto", command, Some(port))
    }

    /// Ends a process with stored state.
    pub(super) fn end(self, process: Process) -> Result<(), Error> {
        match self {
            // Killed.
            Self::Phalanx => drop(process),
            Self::Peer(_) => process.terminate(RESTART_TIMEOUT)?,
        }
        Ok(())
    }
}

impl Home<'_> {
    fn phalanx(&self, arguments: &[&str]) -> Result<Process, Error> {
        let Options { runner, driver, .. } = self.options;
        let mut command = command(&runner.setup, driver, self.processors);
        command.args(arguments);
        self.start("phalanx", command, None)
    }

    fn start(
        &self,
        name: &str,
        command: Command,
        port: Option<ReservedPort>,
    ) -> Result<Process, Error> {
        Process::start_within(
            RESTART_TIMEOUT,
            (name, command, port),
            self.cores,
            self.directory,
            listens,
        )
    }
}
