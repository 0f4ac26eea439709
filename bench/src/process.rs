//! A server under measurement: a process that is started, asked whether it is up, and killed in the end.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::web::{Error, cores, interrupted};

/// How long a server may take to come up, or to take a connection.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A process that is up. Dropped, it is killed with all its children.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    /// It and its children.
    pub(crate) family: Vec<u32>,
    _group: Group,
}

impl Process {
    /// Starts it on `core` and waits until `ask` has nothing to say against what answers there; what it writes lies in
    /// `directory`. It listens at `port`, or tells where.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        port: Option<ReservedPort>,
        core: usize,
        directory: &Path,
        ask: impl Fn(SocketAddr) -> Result<(), String>,
    ) -> Result<Self, Error> {
        use std::os::unix::process::CommandExt;
        let out = directory.join(format!("{name}.out"));
        let errors = directory.join(format!("{name}.err"));
        let failed = |why: String| Error::Server { name: name.to_owned(), why };
        let create = |path: &PathBuf| File::create(path).map_err(Error::Io);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(create(&out)?).stderr(create(&errors)?);
        // Given up at the last moment, or another server of ours would get it, and be measured twice.
        let port = port.map(ReservedPort::give_up);
        let child = cores::spawn(core, &mut command)
            .map_err(|error| failed(format!("{}: {error}", command.get_program().display())))?;
        let mut group = Group(child);
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            interrupted()?;
            let address = match port {
                Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
                None => announced(&fs::read_to_string(&out).unwrap_or_default()),
            };
            let why = match address.map(|address| (address, ask(address))) {
                Some((address, Ok(()))) => {
                    let family = crate::procfs::family(group.0.id()).map_err(Error::Io)?;
                    return Ok(Self { address, family, _group: group });
                }
                Some((_, Err(why))) => why,
                None => "it does not say where it listens".to_owned(),
            };
            let ended = group.0.try_wait().map_err(Error::Io)?;
            if ended.is_some() || Instant::now() > deadline {
                let why = ended.map_or(why, |status| format!("it has ended: {status}"));
                let said = fs::read_to_string(&errors).unwrap_or_default();
                let said = said.trim().lines().last().unwrap_or_default();
                let colon = if said.is_empty() { "" } else { ": " };
                return Err(failed(format!("{why}{colon}{said}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Whether a server is up, for one of which it is enough that it takes a connection.
pub(crate) fn listens(address: SocketAddr) -> Result<(), String> {
    match TcpStream::connect_timeout(&address, START_TIMEOUT) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("it does not listen at {address}: {error}")),
    }
}

/// What `listening on SCHEME://ADDRESS` in a server's output says.
fn announced(output: &str) -> Option<SocketAddr> {
    let line = output.lines().find_map(|line| line.split_once("listening on "))?.1;
    let address = line.split_once("://")?.1;
    // A line that is still being written has no end yet.
    output.ends_with('\n').then(|| address.trim().trim_end_matches('/').parse().ok())?
}

/// Where servers may be beside the search path, since not every user has these in it.
const FOLDERS: [&str; 5] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/local/nginx/sbin",
    "/opt/homebrew/bin",
    "/opt/homebrew/sbin",
];

/// A server's executable, if it is here: in the search path, or where servers often are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
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

/// A port that is kept for a server which wants to be told where to listen.
pub(crate) struct ReservedPort(TcpListener, u16);

impl ReservedPort {
    pub(crate) fn take() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok(Self(listener, port))
    }

    pub(crate) fn number(&self) -> u16 {
        self.1
    }

    /// Lets it go, for the server to take.
    pub(crate) fn give_up(self) -> u16 {
        let Self(listener, port) = self;
        drop(listener);
        port
    }
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
