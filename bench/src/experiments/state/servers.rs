//! The brokers, in memory and with their state in a directory.

use std::process::Command;
use std::time::Duration;

use super::Options;
use crate::error::Error;
use crate::experiments::broker::server::{Home, command};
use crate::runner::{BROKERS, Peer};
use crate::system::process::find;
use crate::system::{Process, ReservedPort};

const RESTART_TIMEOUT: Duration = Duration::from_secs(120);

/// A broker to measure.
#[derive(Clone, Copy)]
pub(super) enum Broker {
    Phalanx,
    Peer(&'static Peer),
}

impl Broker {
    /// All that are wanted and installed.
    pub(super) fn all(options: &Options) -> Vec<Self> {
        let peers = BROKERS.iter().filter(|peer| peer.find_or_tell().is_some());
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
    pub(super) fn start(self, options: &Options, home: Home<'_>) -> Result<Process, Error> {
        match self {
            Self::Phalanx => phalanx(options, home, &["--ephemeral"]),
            Self::Peer(peer) => {
                let first = home.tuned(peer)?.into_iter().next().expect("an installed peer");
                home.start(RESTART_TIMEOUT, first.name, first.command, Some(first.port))
            }
        }
    }

    /// Starts it with its state in the directory.
    pub(super) fn start_stored(self, options: &Options, home: Home<'_>) -> Result<Process, Error> {
        let state = home.directory.join("state");
        std::fs::create_dir_all(&state)?;
        if let Self::Phalanx = self {
            let reason = "the directory for temporary files is not UTF-8";
            let state = state.to_str().ok_or_else(|| Error::server("phalanx", reason))?;
            let most = format!("--max-retained={}", options.retained);
            let most = [&*most, "--max-retained-bytes=64GiB"];
            return phalanx(options, home, &[&["--persistence-dir", state], &most[..]].concat());
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
        home.start(RESTART_TIMEOUT, "mosquitto", command, Some(port))
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

fn phalanx(options: &Options, home: Home<'_>, arguments: &[&str]) -> Result<Process, Error> {
    let mut command = command(&options.runner.setup, &options.driver, home.processors);
    command.args(arguments);
    home.start(RESTART_TIMEOUT, "phalanx", command, None)
}
