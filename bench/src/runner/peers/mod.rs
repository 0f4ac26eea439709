//! Peers: their executables, and their best configurations for static files.

mod caddy;
mod h2o;
mod lighttpd;
mod nginx;
mod sws;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificate::Certificate;
use super::features::Features;
use super::server::ServerSpec;
use crate::system::process::{self, ReservedPort};

/// All known peers.
pub(crate) const PEERS: [Peer; 5] =
    [nginx::NGINX, lighttpd::LIGHTTPD, h2o::H2O, caddy::CADDY, sws::SWS];

/// Versions of the peers; `None` if not installed.
pub(crate) fn versions() -> BTreeMap<String, Option<String>> {
    let version = |peer: &Peer| peer.find().and_then(|path| peer.version(&path));
    PEERS.iter().map(|peer| (peer.name().to_owned(), version(peer))).collect()
}

/// A peer.
pub(crate) struct Peer {
    program: &'static str,
    /// Arguments that print its version.
    version: &'static [&'static str],
    /// How to install it.
    pub(crate) install: &'static str,
    /// Tunings. With TLS only the first is used, since the way from file to socket does not matter there.
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
    /// Arguments; `{}` stands for the configuration file.
    arguments: &'static [&'static str],
}

/// Environment of a server.
struct Environment<'a> {
    /// Folder of its own files.
    directory: &'a Path,
    /// Folder to serve.
    root: &'a Path,
    port: u16,
    /// Number of workers or threads.
    processors: usize,
    /// Whether this process is root: some servers drop its rights and could not read the files.
    root_user: bool,
    /// The certificate, with TLS.
    certificate: Option<&'a Certificate>,
    features: Features,
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

    /// The version that the executable at `path` prints on either stream.
    pub(crate) fn version(&self, path: &Path) -> Option<String> {
        let output = Command::new(path).args(self.version).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        parse_version(&String::from_utf8_lossy(&text))
    }

    /// Commands that serve `root` with the executable at `path`, one per tuning.
    ///
    /// # Errors
    /// When a configuration cannot be written.
    pub(crate) fn specs(
        &self,
        path: &Path,
        processors: usize,
        directory: &Path,
        root: &Path,
        certificate: Option<&Certificate>,
        features: Features,
    ) -> io::Result<Vec<ServerSpec>> {
        let root_user = rustix::process::geteuid().is_root();
        let spec = |tuning: &Tuning| {
            let port = ReservedPort::take()?;
            let port_number = port.number();
            let environment = Environment {
                directory,
                root,
                port: port_number,
                processors,
                root_user,
                certificate,
                features,
            };
            let file = directory.join(format!("{}.conf", tuning.name));
            fs::write(&file, (tuning.configuration)(&environment))?;
            let mut command = Command::new(path);
            for (name, value) in self.environment {
                command.env(name, value.replace("{processors}", &processors.to_string()));
            }
            for argument in tuning.arguments {
                match *argument {
                    "{}" => command.arg(&file),
                    argument => command.arg(argument),
                };
            }
            Ok(ServerSpec {
                name: tuning.name.to_owned(),
                server: tuning.name,
                driver: None,
                command,
                port: Some(port),
                serves_files: true,
                features,
            })
        };
        let count = match (self.can)(features) {
            true if features.tls => 1,
            true => self.tunings.len(),
            false => {
                eprintln!(
                    "{} does not support the features of this scene and is skipped",
                    self.name()
                );
                0
            }
        };
        self.tunings[..count].iter().map(spec).collect()
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
            root_user,
            certificate: None,
            features: Features::NONE,
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
        for (peer, tuning) in PEERS.iter().flat_map(|p| p.tunings.iter().map(move |t| (p, t))) {
            for (certificate, http2, log) in [
                (None, false, false),
                (None, false, true),
                (Some(&certificate), false, false),
                (Some(&certificate), true, false),
            ] {
                let features = Features { tls: certificate.is_some(), http2, log };
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
