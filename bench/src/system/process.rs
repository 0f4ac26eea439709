//! A server under measurement: a process that is started, probed until it is ready, and killed at the end. Also the paths of
//! the programs that benchmarks start.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::error::Error;
use crate::system::interrupt::interrupted;

/// Timeout for a server to become ready or to accept a connection.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running process. Dropping it kills it and its children.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    /// Process ids of the process and its children.
    pub(crate) family: Vec<u32>,
    group: Group,
}

impl Process {
    /// Starts `command` on `cores` and waits until `ask` succeeds for its address. Its output goes to files in
    /// `directory`. It listens on `port`, or announces its address.
    pub(crate) fn start(
        name: &str,
        command: Command,
        port: Option<ReservedPort>,
        cores: &[usize],
        directory: &Path,
        ask: impl Fn(SocketAddr) -> Result<(), String>,
    ) -> Result<Self, Error> {
        Self::start_within(START_TIMEOUT, (name, command, port), cores, directory, ask)
    }

    /// Like [`start`](Self::start), with another timeout.
    pub(crate) fn start_within(
        timeout: Duration,
        (name, mut command, port): (&str, Command, Option<ReservedPort>),
        cores: &[usize],
        directory: &Path,
        ask: impl Fn(SocketAddr) -> Result<(), String>,
    ) -> Result<Self, Error> {
        use std::os::unix::process::CommandExt;
        let out = directory.join(format!("{name}.out"));
        let errors = directory.join(format!("{name}.err"));
        let failed = |reason: String| Error::server(name, reason);
        let create = |path: &PathBuf| File::create(path).map_err(Error::Io);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(create(&out)?).stderr(create(&errors)?);
        // Released at the last moment; otherwise another server could get the same port and be measured twice.
        let port = port.map(ReservedPort::give_up);
        let child = crate::system::cores::spawn(cores, &mut command).map_err(|error| {
            let program = command.get_program().display();
            let hint = match error.kind() {
                io::ErrorKind::NotFound => {
                    "; build it with `cargo build --release`, or name it with --phalanx"
                }
                _ => "",
            };
            failed(format!("{program}: {error}{hint}"))
        })?;
        let mut group = Group(child);
        let deadline = Instant::now() + timeout;
        loop {
            interrupted()?;
            let address = match port {
                Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
                None => announced(&fs::read_to_string(&out).unwrap_or_default()),
            };
            let reason = match address.map(|address| (address, ask(address))) {
                Some((address, Ok(()))) => {
                    let family = crate::system::procfs::family(group.0.id())?;
                    return Ok(Self { address, family, group });
                }
                Some((_, Err(reason))) => reason,
                None => "it does not say where it listens".to_owned(),
            };
            let ended = group.0.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let reason = ended.map_or(reason, |status| format!("it exited: {status}"));
                let said = fs::read_to_string(&errors).unwrap_or_default();
                let said = said.trim().lines().last().unwrap_or_default();
                let colon = if said.is_empty() { "" } else { ": " };
                return Err(failed(format!("{reason}{colon}{said}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends it by SIGTERM, or by SIGKILL after a timeout.
    pub(crate) fn terminate(mut self, timeout: Duration) -> io::Result<()> {
        let deadline = Instant::now() + timeout;
        if let Some(process) = Pid::from_raw(self.group.0.id().cast_signed()) {
            kill_process(process, Signal::TERM)?;
        }
        while self.group.0.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Probe for servers that only need to accept a connection.
pub(crate) fn listens(address: SocketAddr) -> Result<(), String> {
    match TcpStream::connect_timeout(&address, START_TIMEOUT) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("it does not accept connections at {address}: {error}")),
    }
}

/// The address in `listening on SCHEME://ADDRESS` in a server's output.
fn announced(output: &str) -> Option<SocketAddr> {
    let line = output.lines().find_map(|line| line.split_once("listening on "))?.1;
    let address = line.split_once("://")?.1;
    // An incomplete line has no newline yet.
    output.ends_with('\n').then(|| address.trim().trim_end_matches('/').parse().ok())?
}

/// Folders searched in addition to the search path, which lacks them for some users.
const FOLDERS: [&str; 5] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/local/nginx/sbin",
    "/opt/homebrew/bin",
    "/opt/homebrew/sbin",
];

/// The path of a server's executable, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from)).chain(installed());
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A program of `cargo xtask peers`: the one that the option `--program` names, or the installed one.
pub(crate) fn named(path: &Option<PathBuf>, program: &str) -> Result<PathBuf, Error> {
    let reason = "it was not found; run `cargo xtask peers`, or pass its path with --program";
    path.clone().or_else(|| find(program)).ok_or_else(|| Error::server(program, reason))
}

/// Folders of `cargo xtask peers`, if this program is in cargo's target folder.
fn installed() -> Vec<PathBuf> {
    let own = std::env::current_exe().unwrap_or_default();
    own.ancestors().skip(2).take(2).map(|folder| folder.join("peers/bin")).collect()
}

/// A process group, killed when dropped.
pub(crate) struct Group(pub(crate) Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Ports that the system gives to no other socket: its range of ports begins at 32,768. A port from that range could be
/// lost to another process between its release and the start of the server.
const PORTS: Range<u16> = 20_000..32_000;

/// A port reserved for a server that must be given one.
pub(crate) struct ReservedPort(TcpListener, u16);

impl ReservedPort {
    pub(crate) fn take() -> io::Result<Self> {
        loop {
            let port = fastrand::u16(PORTS);
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(listener) => return Ok(Self(listener, port)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => (),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.1
    }

    /// Releases the port for the server.
    pub(crate) fn give_up(self) -> u16 {
        let Self(listener, port) = self;
        drop(listener);
        port
    }
}

const PHALANX: &str = "phalanx";

/// This program, which also contains the load generator, the threaded twin and the bare loop.
pub(crate) fn own() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// The `phalanx` to measure: `given`, or the one beside this program, or the one on the search path. If there is
/// none, the bare name, so that starting it reports that it is missing.
pub(crate) fn phalanx(given: Option<&Path>) -> PathBuf {
    given.map(Path::to_owned).or_else(|| beside(PHALANX)).unwrap_or_else(|| PHALANX.into())
}

/// A program that was built with this one. Cargo puts tests into a folder below the programs.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let own = own().ok()?;
    own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements() {
        let address = "127.0.0.1:4242".parse().unwrap();
        assert_eq!(announced("hello\nlistening on http://127.0.0.1:4242\n"), Some(address));
        assert_eq!(announced("listening on https://127.0.0.1:4242/\n"), Some(address));
        assert_eq!(announced("listening on mqtt://127.0.0.1:4242\n"), Some(address));
        assert_eq!(announced("listening on http://127.0.0.1:42"), None);
        assert_eq!(announced(""), None);
    }
}
