//! Peers: their executables, and their best configurations.

mod brokers;
mod caddy;
mod h2o;
mod lighttpd;
mod nginx;
mod sws;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::features::Certificate;
use super::features::Features;
use crate::system::{ReservedPort, process};

pub(crate) use brokers::BROKERS;

/// Peers of the web server.
pub(crate) const WEB: [Peer; 5] =
    [nginx::NGINX, lighttpd::LIGHTTPD, h2o::H2O, caddy::CADDY, sws::SWS];

pub(crate) struct Peer {
    program: &'static str,
    /// Arguments that print its version; none if it does not tell it.
    version: &'static [&'static str],
    /// How to install it.
    pub(crate) install: &'static str,
    /// Tunings. With TLS and in a proxy only the first is used, since the way from file to socket does not matter there.
    tunings: &'static [Tuning],
    /// Whether the installed peer has these features.
    can: fn(Features) -> bool,
    /// Its environment; `{processors}` stands for their number.
    environment: &'static [(&'static str, &'static str)],
}

/// A configuration to measure.
struct Tuning {
    name: &'static str,
    /// Text of its configuration file.
    configuration: fn(&Environment<'_>) -> String,
    /// Arguments; one of them begins with `{}`, which stands for the path of the configuration file without its ending.
    arguments: &'static [&'static str],
}

/// Environment of a server.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a> {
    /// Folder of its own files.
    pub(crate) directory: &'a Path,
    /// Folder to serve.
    pub(crate) root: &'a Path,
    /// Number of workers or threads.
    pub(crate) processors: usize,
    /// Number of cores that the server may use. This process may be bound to others.
    pub(crate) cores: usize,
    /// The certificate, with TLS.
    pub(crate) certificate: Option<&'a Certificate>,
    pub(crate) features: Features,
    /// The server to forward requests to, with that feature.
    pub(crate) upstream: Option<SocketAddr>,
    /// Whether this process is root: some servers drop its rights and could not read the files.
    pub(crate) root_user: bool,
    /// The port to listen on, which each tuning gets when it is started.
    pub(crate) port: u16,
}

impl<'a> Environment<'a> {
    /// An environment without files to serve and without features.
    pub(crate) fn new(directory: &'a Path, processors: usize, cores: usize) -> Self {
        Self {
            directory,
            root: directory,
            processors,
            cores,
            certificate: None,
            features: Features::NONE,
            upstream: None,
            root_user: rustix::process::geteuid().is_root(),
            port: 0,
        }
    }
}

/// A command that starts a peer in one tuning.
pub(crate) struct Tuned {
    pub(crate) name: &'static str,
    pub(crate) command: Command,
    pub(crate) port: ReservedPort,
}

/// Versions of the peers; `None` if not installed.
pub(crate) fn versions(peers: &[Peer]) -> BTreeMap<&'static str, Option<String>> {
    peers.iter().map(|peer| (peer.name(), peer.find().map(|path| peer.version(&path)))).collect()
}

impl Peer {
    /// Its name in reports, in the first tuning.
    pub(crate) fn name(&self) -> &'static str {
        self.tunings[0].name
    }

    /// Its executable, if installed.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        process::find(self.program)
    }

    /// Its executable; prints how to install it if it is missing.
    pub(crate) fn find_or_tell(&self) -> Option<PathBuf> {
        let path = self.find();
        if path.is_none() {
            eprintln!("{} is not installed and is skipped; {}", self.name(), self.install);
        }
        path
    }

    /// The version that the executable at `path` prints on either stream; empty if it prints none.
    fn version(&self, path: &Path) -> String {
        let output = match self.version {
            [] => None,
            arguments => Command::new(path).args(arguments).output().ok(),
        };
        let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        parse_version(&String::from_utf8_lossy(&text)).unwrap_or_default()
    }

    /// Commands that start the executable at `path`, one per tuning, with their configurations in files.
    pub(crate) fn tuned(
        &self,
        path: &Path,
        environment: &Environment<'_>,
    ) -> io::Result<Vec<Tuned>> {
        let tuned = |Tuning { name, configuration, arguments }: &Tuning| {
            let port = ReservedPort::take()?;
            let environment = Environment { port: port.number(), ..*environment };
            let processors = environment.processors.to_string();
            let file = environment.directory.join(name).display().to_string();
            let mut command = Command::new(path);
            let values = self.environment.iter();
            command.envs(
                values.map(|(name, value)| (name, value.replace("{processors}", &processors))),
            );
            for argument in *arguments {
                let argument = argument.replace("{}", &file);
                if argument.starts_with(&file) {
                    fs::write(&argument, configuration(&environment))?;
                }
                command.arg(argument);
            }
            Ok(Tuned { name, command, port })
        };
        let count = match (self.can)(environment.features) {
            true if environment.features.tls || environment.features.proxy => 1,
            true => self.tunings.len(),
            false => {
                let name = self.name();
                eprintln!("{name} does not support the features of this scene and is skipped");
                0
            }
        };
        self.tunings[..count].iter().map(tuned).collect()
    }
}

/// The first word that is a version: digits and dots, optionally after a `v` or a name and a slash.
fn parse_version(text: &str) -> Option<String> {
    let bare = |word: &str| {
        let word = word.rsplit_once('/').map_or(word, |(_, version)| version);
        word.trim_start_matches('v').to_owned()
    };
    let number =
        |word: &String| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.split_whitespace().map(bare).find(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn environment(root_user: bool) -> Environment<'static> {
        let (directory, root) = (Path::new("/d"), Path::new("/d/site"));
        Environment {
            directory,
            root,
            port: 81,
            processors: 1,
            cores: 1,
            root_user,
            certificate: None,
            features: Features::NONE,
            upstream: None,
        }
    }

    #[test]
    fn versions_are_found() {
        for (text, wanted) in [
            ("nginx version: nginx/1.22.1\n", Some("1.22.1")),
            ("lighttpd/1.4.69 (ssl) - a light and fast webserver\n", Some("1.4.69")),
            ("h2o version 2.2.5\nOpenSSL: OpenSSL 3.0.22 25 Aug 2026", Some("2.2.5")),
            ("v2.10.0 h1:abc=\n", Some("2.10.0")),
            ("no/thing", None),
        ] {
            assert_eq!(parse_version(text).as_deref(), wanted);
        }
    }

    #[test]
    fn configurations_name_their_files() {
        let certificate = Certificate { chain: "/d/chain.pem".into(), key: "/d/key.pem".into() };
        for (peer, tuning) in WEB.iter().flat_map(|p| p.tunings.iter().map(move |t| (p, t))) {
            for (certificate, http2, log) in [
                (None, false, false),
                (None, false, true),
                (Some(&certificate), false, false),
                (Some(&certificate), true, false),
            ] {
                let features = Features {
                    tls: certificate.is_some(),
                    http2,
                    log,
                    gzip: log,
                    ..Features::NONE
                };
                if !(peer.can)(features) && features != Features::NONE {
                    continue;
                }
                let text = (tuning.configuration)(&Environment {
                    certificate,
                    features,
                    ..environment(true)
                });
                let braces = |which: char| text.matches(which).count();
                assert!(text.contains("/d/site") && text.contains("81"), "{}: {text}", tuning.name);
                assert_eq!(braces('{'), braces('}'), "{}: {text}", tuning.name);
                let shown = text.contains("/d/chain.pem") && text.contains("/d/key.pem");
                assert_eq!(shown, certificate.is_some(), "{}: {text}", tuning.name);
                assert_eq!(text.contains("access.log"), log, "{}: {text}", tuning.name);
            }
        }
    }
}
