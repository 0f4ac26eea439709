//! A web server under measurement; it is ready when it answers correctly.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phalanx_http::Body;
use phalanx_http::client::Content;

use super::features::Features;
use super::site::{PROBE, Site};
use crate::error::Error;
use crate::load::http::tls::{Protocol, Tls};
use crate::system::{Process, ReservedPort, START_TIMEOUT, interrupted};

/// A server to start.
pub(crate) struct ServerSpec {
    /// Name with driver or tuning, as in `phalanx-uring`.
    pub(crate) name: String,
    /// Name without.
    pub(crate) server: &'static str,
    pub(crate) driver: Option<&'static str>,
    pub(crate) command: Command,
    /// Port to listen on; `None` if the server chooses and announces it.
    pub(crate) port: Option<ReservedPort>,
    /// Whether it serves the site, rather than one answer for all requests.
    pub(crate) serves_files: bool,
    pub(crate) features: Features,
}

/// A running web server.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) server: &'static str,
    pub(crate) driver: Option<&'static str>,
    pub(crate) features: Features,
    pub(crate) process: Process,
}

impl Server {
    /// Starts it on `cores` and waits until it answers with a file of `site`.
    pub(crate) fn start(
        spec: ServerSpec,
        cores: &[usize],
        directory: &Path,
        site: &Site,
    ) -> Result<Self, Error> {
        Self::start_within(START_TIMEOUT, spec, cores, directory, site)
    }

    /// Like [`start`](Self::start), with another timeout.
    pub(crate) fn start_within(
        timeout: Duration,
        spec: ServerSpec,
        cores: &[usize],
        directory: &Path,
        site: &Site,
    ) -> Result<Self, Error> {
        let ServerSpec { name, server, driver, command, port, serves_files, features } = spec;
        let program = (&*name, command, port);
        let process =
            Process::start_within(timeout, program, cores, directory, |address| {
                match ask(address, features.tls, PROBE) {
                    Ok(body) if !serves_files || body == site.probe => Ok(()),
                    Ok(body) => Err(format!("wrong answer to {PROBE}: {} bytes", body.len())),
                    Err(error) => Err(format!("no answer from {address}: {error}")),
                }
            })?;
        Ok(Self { name, server, driver, features, process })
    }

    /// Requests each file of `site` once, so that a server has what it keeps in memory.
    pub(crate) fn warm_up(&self, site: &Site) -> Result<(), Error> {
        for file in fs::read_dir(&site.root)? {
            interrupted()?;
            let path = format!("/{}", file?.file_name().to_string_lossy());
            ask(self.process.address, self.features.tls, &path)
                .map_err(|error| Error::server(&self.name, format!("{path}: {error}")))?;
        }
        Ok(())
    }
}

/// The body of the answer to a GET of `path`, on a connection of its own.
pub(crate) fn ask(address: SocketAddr, tls: bool, path: &str) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect_timeout(&address, START_TIMEOUT)?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    match tls {
        true => get(Tls::to(&address.ip().to_string(), true, Protocol::Http1)?.wrap(stream)?, path),
        false => get(stream, path),
    }
}

/// The body of the answer to a GET of `path` on a connection. Anything but a 200 with a length is an error.
pub(crate) fn get(mut stream: impl Read + Write, path: &str) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    phalanx_http::client::write_get(&mut request, "localhost", path, false);
    stream.write_all(&request)?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 8192]);
    let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
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
            0 => return Err(bad("incomplete answer")),
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
