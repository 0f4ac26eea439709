//! From a configuration to a server that runs, and back.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use phalanx::fs::Dir;
use phalanx::net::Listener;
use phalanx::runtime::{RunError, StartContext, Started};
use phalanx::{CallError, Graph};
use phalanx_service::{Hangups, port_hint};
use phalanx_tls::{CertificateError, Certificates, Source};

use crate::auth::files::{self, UsersError};
use crate::config::{Config, ConfigError, Listen, LogTarget, Tls};
use crate::connection::accept::{AcceptContext, ListenerControl, ListenerKind, accept};
use crate::log::{Reopening, Sink};
use crate::reload::Reloader;
use crate::reload::inherited::Inherited;
use crate::reload::listener_manager::ListenerManager;
use crate::reload::listeners::Listeners;
use crate::site::{CurrentSite, Root, Site};
use crate::stages::{AcceptStages, Stages};

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// There is no such directory, or it may not be read.
    #[error("cannot serve {}: {source}", path.display())]
    Root {
        /// As configured.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The address is taken, or is none of this machine.
    #[error("cannot listen on {address}: {source}{}", port_hint(address, source))]
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
    /// A file with users cannot be used.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// A new configuration asks for something that a server cannot begin while it runs.
    #[error("{0}: restart the server for it")]
    NeedsRestart(&'static str),
    /// The runtime failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A server that is up.
pub struct Serving<'a> {
    /// Where it listens, in the order of [`Config::listen`].
    pub addresses: &'a [SocketAddr],
    /// What somebody should know of certificates and passwords, one line each: that one expires soon, or
    /// is not for a name of its host; that passwords are asked for without TLS.
    pub warnings: &'a [String],
    /// What the runtime says.
    pub up: &'a Started,
    listen: &'a [Listen],
}

impl Serving<'_> {
    /// Where it is found, in the order of [`Config::listen`]: `https://127.0.0.1:8443`.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.listen.iter().zip(self.addresses).map(|(listen, address)| url(*listen, *address))
    }
}

/// Where an address is found.
pub(crate) fn url(listen: Listen, address: SocketAddr) -> String {
    let scheme = if listen.tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// The server's stages in a graph: what [`serve`] runs, for a program of one's own and for
/// simulations.
#[derive(Clone)]
pub struct Server {
    current: CurrentSite,
    stages: Stages,
    accept_stages: AcceptStages,
    /// In the order of [`Config::listen`].
    kinds: Vec<ListenerKind>,
}

impl Server {
    /// Declares the server's stages as the next of `graph`. Files come from `roots`, one for each
    /// of the hosts in their order, and not from the roots that `config` names; what it says of
    /// the runtime is for [`serve`]. Certificates and the access log are files of this machine, in a
    /// simulation too.
    ///
    /// # Errors
    /// When a certificate or the access log cannot be had.
    ///
    /// # Panics
    /// When there are not as many roots as hosts, [`Config::check`] finds a mistake, or a host asks for
    /// passwords: users are [`serve`]'s.
    pub fn declare(
        graph: &mut Graph,
        config: &Config,
        roots: impl IntoIterator<Item = Dir>,
    ) -> Result<Self, ServeError> {
        assert!(config.hosts.iter().all(|host| host.auth.is_empty()), "passwords are for `serve`");
        let roots = roots.into_iter().map(Root::from).collect();
        let log = config.access_log.as_ref().map(|log| open_log(&log.target)).transpose()?;
        let (certificates, _) = certificates(config)?;
        Ok(Self::declare_with(graph, config, roots, log, certificates))
    }

    fn declare_with(
        graph: &mut Graph,
        config: &Config,
        roots: Vec<Root>,
        log: Option<Sink>,
        certificates: Option<Arc<Certificates>>,
    ) -> Self {
        let current = CurrentSite::new(Site::new(config, roots, None));
        let (stages, accept_stages) = Stages::declare(graph, config, &current, log, certificates);
        let https = config.listen.iter().find(|listen| listen.tls);
        let https = https.map(|listen| listen.address.port());
        let kind = |listen: &Listen| match (listen.tls, listen.redirect_https, https) {
            (true, ..) => ListenerKind::Tls,
            (false, true, Some(port)) => ListenerKind::RedirectHttps(port),
            _ => ListenerKind::Plain,
        };
        let kinds = config.listen.iter().map(kind).collect();
        Self { stages, accept_stages, current, kinds }
    }

    /// Begins to accept on this processor, until the program drains: by listeners in the order of
    /// [`Config::listen`], with TLS where it says so.
    ///
    /// # Errors
    /// When the operations that accept are refused.
    pub fn accept(&self, listeners: impl IntoIterator<Item = Listener>) -> Result<(), CallError> {
        let context = self.context();
        let kinds = self.kinds.iter().copied().chain(std::iter::repeat(ListenerKind::Plain));
        for (listener, kind) in listeners.into_iter().zip(kinds) {
            let (context, kind) = (context.clone(), Rc::new(Cell::new(kind)));
            let control = ListenerControl { kind, close: None };
            self.stages.network.dispatch(move |_| accept(listener, control, context))?;
        }
        Ok(())
    }

    /// What the listeners of one processor share: to be asked for once on each.
    fn context(&self) -> AcceptContext {
        AcceptContext::new(self.stages, self.accept_stages, self.current.clone())
    }
}

/// Serves until the process is asked to end, or until [`Started::control`] is; then finishes what is
/// under way. `ready` is called once connections are accepted. SIGHUP is left to whoever has it: see
/// [`operate`](crate::operate) for a server that reads its configuration again.
///
/// # Errors
/// [`ServeError`]; when the server was up before, only `Run`.
pub fn serve(config: Config, ready: impl FnOnce(&Serving<'_>)) -> Result<(), ServeError> {
    run(config, Inherited::default(), |_| None, ready)
}

/// As [`serve`]; `on_reload` may have a thread of its own for as long as the server runs.
pub(crate) fn run(
    mut config: Config,
    inherited: Inherited,
    on_reload: impl FnOnce(Reloader) -> Option<Hangups>,
    ready: impl FnOnce(&Serving<'_>),
) -> Result<(), ServeError> {
    let errors = config.check();
    if !errors.is_empty() {
        return Err(ServeError::Config(errors));
    }
    config.max_connections =
        config.runtime.room_for_connections(config.max_connections, config.open_files);
    let roots = open_roots(&config)?;
    let (certificates, mut warnings) = certificates(&config)?;
    warnings.extend(files::warnings(&config));
    let listeners = Listeners::bind(&config, inherited)?;
    let log = config.access_log.as_ref().map(|log| open_log(&log.target)).transpose()?;
    let reopen = log.as_ref().map(Sink::reopen);
    let lost = log.as_ref().map(Sink::lost);
    let _signal = log.as_ref().filter(|_| config.runtime.signals).map(Reopening::of);

    let mut graph = Graph::new();
    let server = Server::declare_with(&mut graph, &config, roots, log, certificates.clone());
    let commands = listeners.commands();
    let addresses = listeners.addresses();
    let reloader = Reloader {
        current: server.current.clone(),
        running: config.clone(),
        certificates,
        listeners,
        reopen,
    };
    let hangups = on_reload(reloader);
    let start = |start: &StartContext| {
        let ends = hangups.as_ref().filter(|_| start.processor() == 0).map(Hangups::ends);
        let (commands, processor) = (commands.clone(), start.processor());
        let manager = ListenerManager::new(commands, processor, server.context(), server.stages)?;
        server.stages.network.dispatch(move |_| manager.run(ends))?;
        Ok(())
    };
    let up = |up: &Started| {
        ready(&Serving { addresses: &addresses, warnings: &warnings, up, listen: &config.listen });
    };
    let mut runtime = config.runtime.build();
    let memory = server.current.load().memory.clone();
    for counter in lost.iter().chain(memory.counters()) {
        runtime = runtime.register_counter(counter);
    }
    runtime.run_and(graph, start, up)?;
    Ok(())
}

/// Opens the hosts' directories, in their order.
pub(crate) fn open_roots(config: &Config) -> Result<Vec<Root>, ServeError> {
    config.hosts.iter().map(Root::open).collect()
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

/// Where the hosts' certificates lie.
pub(crate) fn sources(config: &Config) -> Vec<Source> {
    let hosts = config.hosts.iter().filter_map(|host| Some((host, host.tls.clone()?)));
    let sources = hosts.map(|(host, Tls { certificate, key })| Source {
        names: host.server_names.clone(),
        certificate,
        key,
    });
    sources.collect()
}

/// The hosts' certificates, if any address has TLS, and what there is to say about them.
fn certificates(
    config: &Config,
) -> Result<(Option<Arc<Certificates>>, Vec<String>), CertificateError> {
    if !config.listen.iter().any(|listen| listen.tls) {
        return Ok((None, Vec::new()));
    }
    let (certificates, warnings) = Certificates::load(sources(config), SystemTime::now())?;
    Ok((Some(Arc::new(certificates)), warnings))
}
