//! A server under measurement: a process that is started, asked, and killed in the end.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use phalanx_http::Body;
use phalanx_http::client::Content;
use rustix::process::{Pid, Signal, kill_process_group};

use super::demands::Demands;
use super::site::{PROBE, Site};
use super::{Error, cores, interrupted};
use crate::load::tls::Tls;

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// What is to be started.
pub(crate) struct Recipe {
    /// With its driver or tuning, as in `phalanx-uring`.
    pub(crate) name: String,
    /// Without.
    pub(crate) server: &'static str,
    pub(crate) driver: Option<&'static str>,
    pub(crate) command: Command,
    /// Where it will listen, if that is known; otherwise it tells.
    pub(crate) port: Option<ReservedPort>,
    /// Whether it serves the site, and not one answer for all.
    pub(crate) serves_files: bool,
    /// What else it does.
    pub(crate) demands: Demands,
}

/// A process that is up. Dropped, it is killed with all its children.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) server: &'static str,
    pub(crate) driver: Option<&'static str>,
    pub(crate) address: SocketAddr,
    /// What it speaks there, and does beside.
    pub(crate) demands: Demands,
    /// Its processes.
    pub(crate) family: Vec<u32>,
    _group: Group,
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

impl Server {
    /// Starts it on `core` and waits until it answers with what `site` holds.
    pub(crate) fn start(
        recipe: Recipe,
        core: usize,
        directory: &Path,
        site: &Site,
    ) -> Result<Self, Error> {
        use std::os::unix::process::CommandExt;
        let Recipe { name, server, driver, mut command, port, serves_files, demands } = recipe;
        let (out, errors) =
            (directory.join(format!("{name}.out")), directory.join(format!("{name}.err")));
        let failed = |why: String| Error::Server { name: name.clone(), why };
        let create = |path: &PathBuf| File::create(path).map_err(Error::Io);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&errors)?);
        // Given up at the last moment, or another server of ours would get it, and be measured twice.
        let port = port.map(ReservedPort::give_up);
        let child = cores::spawn(core, &mut command)
            .map_err(|error| failed(format!("{}: {error}", command.get_program().display())))?;
        let mut group = Group(child);
        let deadline = Instant::now() + PATIENCE;
        loop {
            interrupted()?;
            let address = match port {
                Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
                None => announced(&fs::read_to_string(&out).unwrap_or_default()),
            };
            let why = match address.map(|address| (address, ask(address, demands.tls))) {
                Some((address, Ok(body))) if !serves_files || body == site.probe => {
                    let family = crate::procfs::family(group.0.id()).map_err(Error::Io)?;
                    return Ok(Self {
                        name,
                        server,
                        driver,
                        address,
                        demands,
                        family,
                        _group: group,
                    });
                }
                Some((_, Ok(body))) => {
                    format!("its answer to {PROBE} is wrong: {} bytes", body.len())
                }
                Some((address, Err(error))) => format!("no answer from {address}: {error}"),
                None => "it does not say where it listens".to_owned(),
            };
            let ended = group.0.try_wait().map_err(Error::Io)?;
            if ended.is_some() || Instant::now() > deadline {
                let why = ended.map_or(why, |status| format!("it has ended: {status}"));
                let said = fs::read_to_string(&errors).unwrap_or_default();
                let said = said.trim().lines().last().unwrap_or_default();
                return Err(failed(format!(
                    "{why}{}{said}",
                    if said.is_empty() { "" } else { ": " }
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What `listening on http://ADDRESS` in a server's output says, or `https`.
fn announced(output: &str) -> Option<SocketAddr> {
    let line = output.lines().find_map(|line| line.split_once("listening on http"))?.1;
    let line = line.strip_prefix('s').unwrap_or(line).strip_prefix("://")?;
    // A line that is still being written has no end yet.
    output.ends_with('\n').then(|| line.trim().trim_end_matches('/').parse().ok())?
}

/// The body of the answer to [`PROBE`].
fn ask(address: SocketAddr, tls: bool) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    match tls {
        true => probe(Tls::to(&address.ip().to_string(), true, false)?.wrap(stream)?),
        false => probe(stream),
    }
}

/// The same over a connection that is there.
fn probe(mut stream: impl Read + Write) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    phalanx_http::client::write_get(&mut request, "localhost", PROBE, false);
    stream.write_all(&request)?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 8192]);
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    loop {
        let parsed = phalanx_http::client::parse_response(&bytes, false);
        if let Some(response) = parsed.map_err(|_| bad("not HTTP"))? {
            let Content::Framed(Body::Length(length)) = response.content else {
                return Err(bad("no Content-Length"));
            };
            if response.status != 200 {
                return Err(bad(&format!("status {}", response.status)));
            }
            if (bytes.len() - response.head) as u64 >= length {
                bytes.drain(..response.head);
                return Ok(bytes);
            }
        }
        match stream.read(&mut chunk)? {
            0 => return Err(bad("no whole answer")),
            read => bytes.extend_from_slice(&chunk[..read]),
        }
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
        assert_eq!(announced("listening on https://127.0.0.1:4242\n"), Some(address));
        assert_eq!(announced("listening on http://127.0.0.1:42"), None);
        assert_eq!(announced(""), None);
    }
}
