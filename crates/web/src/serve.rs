//! From a configuration to a server that runs, and back.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use phalanx::fs::Dir;
use phalanx::net::{Listener, Listeners};
use phalanx::{CallError, Graph, RunError, Start, Up};

use crate::config::{Config, Listen, LogTarget, Mistake};
use crate::connection::accept::{Accepting, Door, accept};
use crate::log::{Reopening, Sink};
use crate::site::{Live, Site};
use crate::stages::Stages;
use crate::tls::certificate::CertificateError;
use crate::tls::certificates::{Certificates, Source};
use crate::tls::handshake::TlsStages;

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<Mistake>),
    /// There is no such directory, or it may not be read.
    #[error("cannot serve {}: {source}", path.display())]
    Root {
        /// As configured.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The address is taken, or is none of this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The access log cannot be opened.
    #[error("cannot write the access log{}: {source}", where_to(target))]
    Log {
        /// As configured.
        target: LogTarget,
        /// Why.
        source: io::Error,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The runtime failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A server that is up.
pub struct Serving<'a> {
    /// Where it listens, in the order of [`Config::listen`].
    pub addresses: &'a [SocketAddr],
    /// What somebody should know of the certificates, one line each: that one expires soon, or is not
    /// for a name of its host.
    pub doubts: &'a [String],
    /// What the runtime says.
    pub up: &'a Up,
    listen: &'a [Listen],
}

impl Serving<'_> {
    /// Where it is found, in the order of [`Config::listen`]: `https://127.0.0.1:8443`.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        let scheme = |listen: &Listen| if listen.tls { "https" } else { "http" };
        let all = self.listen.iter().zip(self.addresses);
        all.map(move |(listen, address)| format!("{}://{address}", scheme(listen)))
    }
}

/// The server's stages in a graph: what [`serve`] runs, for a program of one's own and for
/// simulations.
#[derive(Clone)]
pub struct Server {
    live: Live,
    stages: Stages,
    tls: Option<TlsStages>,
    /// In the order of [`Config::listen`].
    doors: Vec<Door>,
}

impl Server {
    /// Declares the server's stages as the next of `graph`. Files come from `roots`, one for each
    /// of the hosts in their order, and not from the roots that `config` names; what it says of
    /// the runtime and of the access log is for [`serve`].
    ///
    /// # Panics
    /// When there are not as many roots as hosts, [`Config::check`] finds a mistake, or an address has
    /// TLS: certificates are files of the machine's, and so [`serve`]'s.
    pub fn declare(
        graph: &mut Graph,
        config: &Config,
        roots: impl IntoIterator<Item = Dir>,
    ) -> Self {
        assert!(config.listen.iter().all(|listen| !listen.tls), "TLS is for `serve`");
        let doors = vec![Door::Plain; config.listen.len()];
        Self::declare_with(graph, config, roots.into_iter().collect(), None, None, doors)
    }

    fn declare_with(
        graph: &mut Graph,
        config: &Config,
        roots: Vec<Dir>,
        log: Option<Sink>,
        certificates: Option<Arc<Certificates>>,
        doors: Vec<Door>,
    ) -> Self {
        let live = Live::new(Site::new(config, roots));
        let (stages, tls) = Stages::declare(graph, config, &live, log, certificates);
        Self { stages, tls, live, doors }
    }

    /// Begins to accept on this processor, until the program drains.
    ///
    /// # Errors
    /// When the operations that accept are refused.
    pub fn accept(&self, listeners: impl IntoIterator<Item = Listener>) -> Result<(), CallError> {
        let accepting = Accepting::new(self.stages, self.tls, self.live.clone());
        let doors = self.doors.iter().copied().chain(std::iter::repeat(Door::Plain));
        for (listener, door) in listeners.into_iter().zip(doors) {
            let accepting = accepting.clone();
            self.stages.network.dispatch(move |_| accept(listener, door, accepting))?;
        }
        Ok(())
    }
}

/// Serves until the process is asked to end, or until [`Up::control`] is; then finishes what is
/// under way. `ready` is called once connections are accepted.
///
/// # Errors
/// [`ServeError`]; when the server was up before, only `Run`.
pub fn serve(mut config: Config, ready: impl FnOnce(&Serving<'_>)) -> Result<(), ServeError> {
    let mistakes = config.check();
    if !mistakes.is_empty() {
        return Err(ServeError::Config(mistakes));
    }
    crate::guard::descriptors::reserve(&mut config);
    let open = |path: &PathBuf| {
        Dir::open(path).map_err(|source| ServeError::Root { path: path.clone(), source })
    };
    let roots =
        config.hosts.iter().map(|host| open(&host.root)).collect::<Result<Vec<_>, ServeError>>()?;
    let bind = |address| {
        Listeners::bind(address, config.runtime.processors)
            .map_err(|source| ServeError::Listen { address, source })
    };
    let listeners = config
        .listen
        .iter()
        .map(|listen| bind(listen.address))
        .collect::<Result<Vec<_>, ServeError>>()?;

    let (certificates, doubts) = certificates(&config)?;
    let https = config.listen.iter().position(|listen| listen.tls);
    let https = https.map(|at| listeners[at].local_addr().port());
    let doors = config.listen.iter().map(|listen| match (listen.tls, listen.to_https, https) {
        (true, ..) => Door::Tls,
        (false, true, Some(port)) => Door::ToHttps(port),
        _ => Door::Plain,
    });
    let doors = doors.collect();

    let mut graph = Graph::new();
    let log = config.access_log.as_ref().map(|log| open_log(&log.target)).transpose()?;
    let _signal = log.as_ref().filter(|_| config.runtime.signals).map(Reopening::of);
    let server = Server::declare_with(&mut graph, &config, roots, log, certificates, doors);
    let start = |start: &Start| {
        let own = listeners.iter().map(|listeners| listeners.listener(start));
        server.accept(own.collect::<io::Result<Vec<_>>>()?)?;
        Ok(())
    };
    let addresses: Vec<_> = listeners.iter().map(Listeners::local_addr).collect();
    let up = |up: &Up| {
        ready(&Serving { addresses: &addresses, doubts: &doubts, up, listen: &config.listen });
    };
    config.runtime.build().run_and(graph, start, up)?;
    Ok(())
}

fn open_log(target: &LogTarget) -> Result<Sink, ServeError> {
    Sink::open(target).map_err(|source| ServeError::Log { target: target.clone(), source })
}

fn where_to(target: &LogTarget) -> String {
    match target {
        LogTarget::Stdout => " to the standard output".to_owned(),
        LogTarget::File(path) => format!(" {}", path.display()),
    }
}

/// The hosts' certificates, if any address has TLS, and what there is to say about them.
fn certificates(
    config: &Config,
) -> Result<(Option<Arc<Certificates>>, Vec<String>), CertificateError> {
    if !config.listen.iter().any(|listen| listen.tls) {
        return Ok((None, Vec::new()));
    }
    let (certificates, doubts) = Certificates::load(Source::of(config), SystemTime::now())?;
    Ok((Some(Arc::new(certificates)), doubts))
}

/// Looks whether the certificates that a configuration names can be used, where it has TLS. Gives what
/// somebody should know of them all the same, one line each.
///
/// # Errors
/// [`CertificateError`] of the first that cannot be used.
pub fn check_certificates(config: &Config) -> Result<Vec<String>, CertificateError> {
    certificates(config).map(|(_, doubts)| doubts)
}
