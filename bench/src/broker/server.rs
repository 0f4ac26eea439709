//! A broker under measurement: it is up when it takes a connection.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Options;
use crate::process::{self, Process, ReservedPort};
use crate::web::Error;

const MOSQUITTO: &str = "mosquitto";

/// A broker that is up.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Whether what it acknowledges is on the disk.
    pub(super) keeps: bool,
    pub(super) process: Process,
}

/// `phalanx broker` on one processor: all in memory, or with a directory to keep it in.
pub(super) fn phalanx(
    options: &Options,
    keeps: bool,
    core: usize,
    directory: &Path,
) -> Result<Server, Error> {
    let path = match &options.runner.phalanx {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(Error::Io)?,
    };
    let mut command = Command::new(path);
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

/// mosquitto in both its ways, with nothing that it could do without; none where it is not installed.
///
/// It sends each message by itself. With Nagle's algorithm the kernel makes larger segments of them, which costs
/// less where there are many; without, one that is alone is not held back.
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

/// mosquitto's version, if it is here.
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
