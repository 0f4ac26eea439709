//! Server startup: from a configuration to a running server.

mod certificates;
mod health_checks;
mod quic_sockets;
pub(crate) mod reload;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phalanx::fs::Dir;
use phalanx::net::{Listener, UdpSocket};
use phalanx::runtime::{StartContext, Started, report};
use phalanx::{CallError, Graph};
use phalanx_acme::Manager;
use phalanx_quic::{Config as QuicConfig, Endpoint};
use phalanx_service::{
    ConnectionLimit, Inherited, ListenerControl, ListenerManager, Listeners, Operator, Scheme as _,
    Serving, SighupHandler, reload_at_sighup,
};
use phalanx_tls::Certificates;

use crate::auth::files;
use crate::config::{Arrival, Config, HostConfig, Scheme, has_http3};
use crate::conn::AcceptContext;
use crate::conn::accept::accept;
use crate::conn::quic::serve_quic;
use crate::error::ServeError;
use crate::log::{Logs, handle_reopen_signal};
use crate::serve::health_checks::check_all;
use crate::serve::quic_sockets::{QuicSocket, QuicSockets, quic_config};
use crate::serve::reload::Reloader;
use crate::site::{AltSvc, CurrentSite, Root, Site};
use crate::socket::buffers;
use crate::stages::{AcceptStages, Stages};

/// The server's stages in a graph, for embedding and for simulations. [`serve`] runs such a server.
#[derive(Clone)]
pub struct Server {
    current: CurrentSite,
    stages: Stages,
    accept_stages: AcceptStages,
    /// One per entry of [`Config::listen`].
    kinds: Vec<Arrival>,
    /// Open connections.
    open: Arc<ConnectionLimit>,
    /// Whether the general allocator provides the I/O buffers.
    unpooled_buffers: bool,
    /// Whether the first processor has begun.
    is_started: Arc<AtomicBool>,
    /// QUIC, if HTTP/3 is on.
    quic: Option<QuicConfig>,
}

impl Server {
    /// Declares the server's stages as the next stages of `graph`. Files are read from `roots`, one for each
    /// host in order, instead of the roots in `config`. The runtime settings in `config` apply only to
    /// [`serve`]. Certificates and the access log are real files, also in a simulation.
    ///
    /// # Errors
    /// If a certificate or the access log cannot be opened.
    ///
    /// # Panics
    /// If the numbers of roots and hosts differ, if [`Config::check`] finds an error, or if a host requires
    /// passwords, has an alias, or passes requests to a server with TLS, or if certificates come from an ACME authority,
    /// which only [`serve`] supports.
    pub fn declare(
        graph: &mut Graph,
        config: &Config,
        roots: impl IntoIterator<Item = Dir>,
    ) -> Result<Self, ServeError> {
        let has_files = |host: &HostConfig| {
            let mut servers = host.proxies.iter().flat_map(|proxy| &proxy.to);
            !host.auth.is_empty() || !host.aliases.is_empty() || servers.any(|server| server.is_tls)
        };
        assert!(
            config.acme.is_none() && !config.hosts.iter().any(has_files),
            "only `serve` supports passwords, aliases, TLS to other servers, and ACME"
        );
        let roots = roots.into_iter().map(Root::from).collect();
        let logs = Logs::open(config, None)?;
        let (certificates, _) = certificates::load(config)?;
        let with_http3 = config.listen.iter().filter(|listen| has_http3(listen));
        let ports = with_http3.filter_map(|listen| listen.address.ip());
        let ports = ports.map(|address| (address, address.port()));
        let alt_svc = AltSvc::new(config, &ports.collect::<Vec<_>>());
        Ok(Self::declare_with(graph, config, roots, logs, (certificates, alt_svc)))
    }

    fn declare_with(
        graph: &mut Graph,
        config: &Config,
        roots: Vec<Root>,
        logs: Arc<Logs>,
        (certificates, alt_svc): (Option<Arc<Certificates>>, AltSvc),
    ) -> Self {
        let site = Site::new(config, roots, logs, None);
        site.set_alt_svc(alt_svc);
        let current = CurrentSite::new(site);
        let quic = certificates.as_ref().filter(|_| config.http3);
        let quic = quic.map(|certificates| quic_config(config, certificates.clone()));
        let (stages, accept_stages) = Stages::declare(graph, config, &current, certificates);
        let kinds = config.listen.iter();
        let kinds =
            kinds.map(|listen| Scheme::kind(*listen, listen.address, config.tls_port())).collect();
        let open = Arc::new(ConnectionLimit::with_gauge(current.load().metrics.open().clone()));
        let (is_started, unpooled_buffers) = (Arc::default(), config.measurement.unpooled_buffers);
        Self { stages, accept_stages, current, kinds, open, unpooled_buffers, is_started, quic }
    }

    /// Serves HTTP/3 on this processor until the program shuts down, if [`Config::http3`] is set. `socket` is the one
    /// with the number of this processor in a group of `processors` sockets ([`bind_quic`](phalanx::net::bind_quic)).
    ///
    /// # Errors
    /// If the operation is refused.
    pub fn accept_http3(
        &self,
        socket: UdpSocket,
        processor: u16,
        processors: u16,
    ) -> Result<(), CallError> {
        let context = self.begin()?;
        let local = socket.local_addr().unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
        let is_open = Arc::new(AtomicBool::new(true));
        self.serve_quic(context, socket, (processor, processors), (local, is_open))
    }

    fn serve_quic(
        &self,
        context: AcceptContext,
        socket: UdpSocket,
        (processor, processors): (u16, u16),
        address: (SocketAddr, Arc<AtomicBool>),
    ) -> Result<(), CallError> {
        let Some(config) = &self.quic else { return Ok(()) };
        let endpoint = Endpoint::new(socket, config, processor, processors);
        self.stages.streams.dispatch(move |_| serve_quic(endpoint, context, address))
    }

    /// Accepts connections on this processor until the program shuts down. The listeners correspond to the
    /// entries of [`Config::listen`]; an entry with TLS makes its listener use TLS.
    ///
    /// # Errors
    /// If the accept operations are refused.
    pub fn accept(&self, listeners: impl IntoIterator<Item = Listener>) -> Result<(), CallError> {
        let context = self.begin()?;
        let kinds = self.kinds.iter().copied().chain(std::iter::repeat(Arrival::PLAIN));
        for (listener, kind) in listeners.into_iter().zip(kinds) {
            let (context, control) = (context.clone(), ListenerControl::fixed(kind));
            self.stages.network.dispatch(move |_| accept(listener, control, context))?;
        }
        Ok(())
    }

    /// State shared by the listeners of one processor; call it once per processor. The first processor checks the
    /// servers behind the reverse proxy.
    fn begin(&self) -> Result<AcceptContext, CallError> {
        buffers::set_pooled(!self.unpooled_buffers);
        let (current, upstream) = (self.current.clone(), self.accept_stages.upstream);
        if !self.is_started.swap(true, Ordering::Relaxed) {
            let checked = current.clone();
            upstream.dispatch(move |_| check_all(checked, upstream))?;
        }
        Ok(AcceptContext::new(self.stages, self.accept_stages, current, self.open.clone()))
    }
}

/// Serves until the process receives a termination signal or [`Started::control`] ends the program; requests
/// in progress are finished first. Calls `ready` once connections are accepted. SIGHUP is not handled; see [`operate`]
/// for a server that reloads its configuration.
///
/// # Errors
/// [`ServeError`]; once the server has started, only `Run`.
pub fn serve(config: Config, ready: impl FnOnce(&Serving<'_>)) -> Result<(), ServeError> {
    run(config, Inherited::default(), None, Box::new(ready))
}

/// Like [`serve`], with an operator that observes the server and reloads its configuration. A socket in
/// `inherited` is used for the address of `config` that it is bound to.
///
/// ```no_run
/// use std::sync::Arc;
/// use phalanx_web::{Config, Inherited, Operator, Reload, Reloader, Serving, operate};
///
/// struct Root;
///
/// impl Operator<Reloader> for Root {
///     fn ready(&self, serving: &Serving<'_>) {
///         serving.urls.iter().for_each(|url| println!("listening on {url}"));
///     }
///
///     fn reload(&self, reloader: &mut Reloader) {
///         if let Err(error) = reloader.reload(Config::with_root("/srv/www")) {
///             eprintln!("{error}");
///         }
///     }
/// }
///
/// let inherited = Inherited::default();
/// operate(Config::with_root("/srv/www"), inherited, Arc::new(Root))?;
/// # Ok::<(), phalanx_web::ServeError>(())
/// ```
///
/// # Errors
/// Like [`serve`].
pub fn operate(
    config: Config,
    inherited: Inherited<Scheme>,
    operator: Arc<dyn Operator<Reloader>>,
) -> Result<(), ServeError> {
    let ready = operator.clone();
    run(config, inherited, Some(operator), Box::new(move |serving| ready.ready(serving)))
}

/// Like [`serve`], and like [`operate`] if there is an operator. This function has no type parameters, so that only this
/// crate compiles the server.
fn run(
    mut config: Config,
    inherited: Inherited<Scheme>,
    operator: Option<Arc<dyn Operator<Reloader>>>,
    ready: Box<dyn FnOnce(&Serving<'_>) + '_>,
) -> Result<(), ServeError> {
    let errors = config.check();
    if !errors.is_empty() {
        return Err(ServeError::Config(errors));
    }
    config.max_connections =
        config.runtime.connection_limit(config.max_connections, config.reserved_files());
    let roots = Root::open_all(&config)?;
    let (certificates, mut warnings) = certificates::load(&config)?;
    warnings.extend(files::warnings(&config));
    let listeners = Listeners::bind(&config.listen, config.runtime.workers, inherited)?;
    let quic = QuicSockets::bind(&config, &listeners.addresses())?.map(Arc::new);
    let logs = Logs::open(&config, None)?;
    if config.runtime.signals {
        handle_reopen_signal();
    }

    let mut graph = Graph::new();
    let ports = quic.as_ref().map(|quic| quic.ports()).unwrap_or_default();
    let tls = (certificates.clone(), AltSvc::new(&config, &ports));
    let server = Server::declare_with(&mut graph, &config, roots, logs, tls);
    let (commands, _files) = (listeners.commands(), listeners.unix_files());
    let (addresses, urls) = (listeners.addresses(), listeners.urls());
    let challenges = server.current.load().challenges.clone();
    let acme = certificates.clone().map(|certificates| Manager::new(certificates, challenges));
    let mut plan = acme.as_ref().and_then(|_| config.plan());
    let acme_metrics = acme.as_ref().filter(|_| plan.is_some()).map(Manager::metrics);
    let acme = acme.map(Arc::new);
    let reloader = Reloader {
        current: server.current.clone(),
        running: config.clone(),
        certificates,
        listeners,
        quic: quic.clone(),
        acme: acme.clone(),
    };
    let sighup = operator.and_then(|operator| reload_at_sighup(operator, reloader));
    let start = |start: &StartContext| {
        let ends = sighup.as_ref().filter(|_| start.processor() == 0).map(SighupHandler::handle);
        let (commands, processor) = (commands.clone(), start.processor());
        let (network, context) = (server.stages.network, server.begin()?);
        for QuicSocket { socket, count, local, is_open } in
            quic.iter().flat_map(|quic| quic.take(processor))
        {
            let socket = UdpSocket::new(socket)?;
            let place = (processor as u16, count);
            server.serve_quic(context.clone(), socket, place, (local, is_open))?;
        }
        let manager = ListenerManager::new(commands, processor, move |listener, control| {
            let context = context.clone();
            network.dispatch(move |_| accept(listener, control, context)).map(drop)
        })?;
        server.stages.network.dispatch(move |_| manager.run(ends))?;
        Ok(())
    };
    // Authorities connect to the server, so it must accept connections first.
    let up = |up: &Started| {
        if let (Some(acme), Some(plan)) = (&acme, plan.take())
            && let Err(error) = acme.set_plan(Some(plan))
        {
            report(format_args!("cannot get certificates: {error}"));
        }
        ready(&Serving { addresses: &addresses, urls: &urls, warnings: &warnings, up });
    };
    let mut runtime = config.runtime.build();
    let site = server.current.load();
    runtime = runtime.register_gauge(site.metrics.open()).register_times(site.metrics.latency());
    runtime = runtime.register_gauges(site.upstreams.gauges());
    let lost = server.stages.log.map(|_| site.logs.lost());
    let counters = site.metrics.counters().chain(lost).chain(site.memory.counters());
    let counters = counters.chain(server.quic.iter().flat_map(QuicConfig::counters));
    let floods = site.floods.counters().chain(site.http3_floods.counters());
    for counter in counters.chain(floods).chain(site.upstreams.all()) {
        runtime = runtime.register_counter(counter);
    }
    if let Some(metrics) = &acme_metrics {
        for counter in metrics.counters() {
            runtime = runtime.register_counter(counter);
        }
        for gauge in metrics.gauges() {
            runtime = runtime.register_gauge(gauge);
        }
    }
    // A reload replaces it, and frees what only it uses.
    drop(site);
    runtime.run_with_ready(graph, start, up)?;
    Ok(())
}
