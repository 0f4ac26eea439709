//! A broker under measurement; it is ready when it accepts a connection.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Options;
use crate::process::{self, Process, ReservedPort};
use crate::programs;
use crate::web::Error;

const MOSQUITTO: &str = "mosquitto";

/// A running broker.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Whether it journals acknowledged messages.
    pub(super) keeps: bool,
    pub(super) process: Process,
}

/// `phalanx broker` with one worker, in memory or with a persistence directory.
pub(super) fn phalanx(
    options: &Options,
    keeps: bool,
    core: usize,
    directory: &Path,
) -> Result<Server, Error> {
    let mut command = Command::new(programs::phalanx(options.runner.phalanx.as_deref()));
    command.args(["broker", "--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--driver", &options.driver]);
    let name = if keeps {
        command.arg("--persistence-dir").arg(directory.join("data"));
        "phalanx-kept"
    } else {
        command.arg("--ephemeral");
        "phalanx"
    };
    Ok(Server { keeps, ..start(name, command, None, core, directory)? })
}

/// Mosquitto with and without Nagle's algorithm, minimally configured; empty if it is not installed.
///
/// It writes each message separately. With Nagle's algorithm the kernel combines them into larger segments, which
/// is cheaper for many messages; without it, a single message is not delayed.
pub(super) fn mosquitto(core: usize, directory: &Path) -> Result<Vec<Server>, Error> {
    let Some(path) = process::find(MOSQUITTO) else { return Ok(Vec::new()) };
    let start = |(name, nodelay): (&'static str, bool)| {
        let port = ReservedPort::take().map_err(Error::Io)?;
        let configuration = directory.join(format!("{name}.conf"));
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type none\n\
             max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay {nodelay}\nsys_interval 0\n",
            port.number()
        );
        fs::write(&configuration, text).map_err(Error::Io)?;
        let mut command = Command::new(&path);
        command.arg("-c").arg(configuration);
        start(name, command, Some(port), core, directory)
    };
    [("mosquitto", true), ("mosquitto-nagle", false)].into_iter().map(start).collect()
}

/// Version of mosquitto, if it is installed.
pub(crate) fn mosquitto_version() -> Option<String> {
    let output = Command::new(process::find(MOSQUITTO)?).arg("-h").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // As in `mosquitto version 2.0.11`.
    let line = text.lines().next()?.trim();
    Some(line.strip_prefix("mosquitto version ").unwrap_or(line).to_owned())
}

fn start(
    name: &'static str,
    command: Command,
    port: Option<ReservedPort>,
    core: usize,
    directory: &Path,
) -> Result<Server, Error> {
    let process = Process::start(name, command, port, core, directory, process::listens)?;
    Ok(Server { name, keeps: false, process })
}
