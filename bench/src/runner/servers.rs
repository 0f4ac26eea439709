//! Selection of the servers to measure.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::features::Certificate;
use super::features::Features;
use super::peers::{Environment, Tuned, WEB, versions};
use super::server::ServerSpec;
use super::{Plan, Runner};
use crate::system::process;

/// Versions of the peers; `None` if not installed.
pub(crate) type Versions = BTreeMap<&'static str, Option<String>>;

impl Runner {
    /// The selected and available servers on this many cores, with their files in `directory`, and the peers' versions.
    pub(super) fn specs(
        &self,
        plan: &Plan<'_>,
        processors: usize,
        cores: usize,
        directory: &Path,
    ) -> io::Result<(Vec<ServerSpec>, Versions)> {
        let Plan { wants, arguments, features, .. } = *plan;
        let empty = directory.join("empty");
        let root = match features.proxy {
            // The proxy has no files, so the probe at its start fails unless it forwards requests.
            true => {
                fs::create_dir_all(&empty)?;
                &empty
            }
            false => &self.site.root,
        };
        let upstream = self.upstream.as_ref().filter(|_| features.proxy);
        let upstream = upstream.map(|server| server.process.address);
        let program = process::own()?;
        let mut specs = Vec::new();
        for driver in ["uring", "poll"] {
            let web = self.web_of(root, driver, processors, arguments);
            specs.push(with_features(web, directory, features, upstream));
            let mut floor = Command::new(&program);
            floor.args(["floor-server", "--driver", driver]);
            floor.arg(format!("--processors={processors}"));
            specs.push(own("floor", Some(driver), false, floor));
        }
        let mut twin = Command::new(&program);
        twin.arg("twin-server").arg(root);
        specs.push(own("twin", None, true, twin));
        let mut fibres = Command::new(&program);
        fibres.arg("twin-server").arg(root).arg(format!("--fibres={processors}"));
        specs.push(own("fibres", None, true, fibres));
        let environment = Environment {
            root,
            certificate: self.certificate.as_ref(),
            features,
            upstream,
            ..Environment::new(directory, processors, cores)
        };
        for peer in &WEB {
            let path = if wants(peer.name()) { peer.find_or_tell() } else { peer.find() };
            let Some(path) = path else { continue };
            let spec = |Tuned { name, command, port }| ServerSpec {
                features,
                port: Some(port),
                ..own(name, None, true, command)
            };
            specs.extend(peer.tuned(&path, &environment)?.into_iter().map(spec));
        }
        specs.retain(|spec| wants(&spec.name) && spec.features == features);
        // Without io_uring its driver cannot be measured.
        if let Err(error) = phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring) {
            eprintln!("skipping the uring driver: {error}");
            specs.retain(|spec| spec.driver != Some("uring"));
        }
        Ok((specs, versions(&WEB)))
    }

    /// `phalanx web` for the files in `root`, with this many workers and additional arguments.
    pub(super) fn web_of(
        &self,
        root: &Path,
        driver: &'static str,
        processors: usize,
        arguments: &[&str],
    ) -> ServerSpec {
        let mut web = Command::new(&self.phalanx);
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        web.arg("web").arg(root).arg(format!("--listen={scheme}://127.0.0.1:0"));
        web.arg(format!("--workers={processors}")).args(["--driver", driver]).args(arguments);
        if let Some(Certificate { chain, key }) = &self.certificate {
            web.arg("--tls-certificate").arg(chain).arg("--tls-key").arg(key);
        }
        let features = Features { tls: self.certificate.is_some(), ..Features::NONE };
        ServerSpec { features, ..own("phalanx", Some(driver), true, web) }
    }
}

/// The better available driver, and the name of `phalanx web` on it.
pub(crate) fn ours() -> (&'static str, String) {
    let ring = phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring).is_ok();
    let driver = if ring { "uring" } else { "poll" };
    (driver, format!("phalanx-{driver}"))
}

/// Adds the required features to `phalanx web`.
fn with_features(
    mut web: ServerSpec,
    directory: &Path,
    features: Features,
    upstream: Option<SocketAddr>,
) -> ServerSpec {
    if features.log {
        let log = directory.join(format!("{}.access.log", web.name));
        web.command.arg("--set").arg(format!("access-log.target = '{}'", log.display()));
    }
    if features.http3 {
        web.command.arg("--http3");
    }
    if features.gzip {
        web.command.arg("--precompressed");
    }
    if let Some(address) = upstream {
        web.command.arg(format!("--proxy=http://{address}"));
    }
    // It supports HTTP/2 wherever it supports TLS.
    ServerSpec { features, ..web }
}

fn own(
    server: &'static str,
    driver: Option<&'static str>,
    serves_files: bool,
    command: Command,
) -> ServerSpec {
    let name = driver.map_or(server.to_owned(), |driver| format!("{server}-{driver}"));
    ServerSpec { name, server, driver, command, port: None, serves_files, features: Features::NONE }
}
