//! Starts, runs and stops a broker.

pub(crate) mod error;
mod journal;
mod log;
pub(crate) mod reload;
mod sweep;
mod system;
mod trim;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use phalanx::blocking::blocking;
use phalanx::net::{Listener, Resolver};
use phalanx::runtime::{StartContext, Started, report};
use phalanx::shutdown::{drain, draining};
use phalanx::task::Either;
use phalanx::{CallError, Graph, Runtime, select};
use phalanx_access::{Fetcher, Passwords};
use phalanx_service::{
    Inherited, ListenAddress, ListenerControl, ListenerManager, Listeners, Operator, Serving,
    SighupHandler, reload_at_sighup,
};
use phalanx_store::{Recovered, Store};
use phalanx_tls::{CertificateError, Certificates, Profile, TlsStages};

use crate::access::{self, Access, Verifiers};
use crate::admin;
use crate::bridge::manage;
use crate::cluster::serve_cluster;
use crate::config::Config;
use crate::connection::accept::accept;
use crate::context::stages::Stages;
use crate::context::{Context, Names, Tls};
use crate::counters::Counters;
use crate::durable::recovery::RecoveredState;
use crate::events::EventLog;
use crate::events::drops::DropReason;
use crate::kept::fenced::mark;
use crate::kept::state::Kept;
use crate::limits::refused_logins::RefusedLogins;
use crate::limits::settings::{Settings, SharedSettings};
use crate::link::registry::Bridges;
use crate::listen::{Bound, Scheme};
use crate::peers::Peers;
use crate::serve::error::{ServeError, lines};
pub use crate::serve::journal::check_persistence_dir;
use crate::serve::journal::open;
use crate::serve::log::log;
use crate::serve::reload::Reloader;
use crate::serve::sweep::sweep;
use crate::serve::system::publish_status;
use crate::serve::trim::trim;

/// The stages of a broker, for [`serve`], for other programs and for simulations.
#[derive(Clone)]
pub struct Broker {
    context: Context,
    settings: SharedSettings,
}

impl Broker {
    /// Declares the broker's stages as the next of `graph`. Addresses and runtime settings of `config` are
    /// ignored, except for the number of processors, which must equal the program's.
    ///
    /// # Panics
    /// If [`Config::check`] finds an error, or a file of [`Config::security`] is unusable.
    pub fn declare(graph: &mut Graph, config: &Config) -> Self {
        Self::declare_checked(graph, config, None)
    }

    /// Like [`declare`](Self::declare), with persistence in `store`, whose contents were `recovered` at the
    /// given time of day (since 1970). For simulations, which have simulated disks; [`serve`] opens the
    /// directory of [`Config::persistence_dir`].
    ///
    /// # Errors
    /// A description of data that this version does not understand.
    ///
    /// # Panics
    /// Same as [`declare`](Self::declare).
    pub fn declare_on(
        graph: &mut Graph,
        config: &Config,
        (store, recovered): (Store, Recovered),
        time_of_day: Duration,
    ) -> Result<Self, String> {
        let recovered_state = RecoveredState::of(recovered, config.runtime.workers, time_of_day)?;
        Ok(Self::declare_checked(graph, config, Some((store, recovered_state))))
    }

    fn declare_checked(
        graph: &mut Graph,
        config: &Config,
        store: Option<(Store, RecoveredState)>,
    ) -> Self {
        let errors = config.check();
        assert!(errors.is_empty(), "{}", lines(&errors));
        let access = access::open(config).unwrap_or_else(|error| panic!("{error}"));
        Self::declare_with(graph, config, access, (store, None))
    }

    fn declare_with(
        graph: &mut Graph,
        config: &Config,
        access: Access,
        (store, tls): (Option<(Store, RecoveredState)>, Option<TlsProfiles>),
    ) -> Self {
        let names = Arc::new(Names::new(config.seed));
        let mut counters = Counters::new(EventLog::default());
        counters.peers = config.cluster.is_on().then(|| Peers::new(&names.broker_id()));
        let kept_peers = counters.peers.as_ref().filter(|_| config.cluster.keeps());
        let kept = kept_peers
            .map(|peers| Kept::new(&config.cluster, &names.broker_id(), peers.status.kept.clone()));
        let (counters, settings) = (
            Arc::new(counters),
            Arc::new(ArcSwap::from_pointee(Settings::new(config.clone(), None))),
        );
        let has_users = !config.password_files().is_empty();
        let passwords = has_users.then(|| Passwords::declare(graph));
        // No ALPN protocol, because clients offer various names or none.
        let tls = tls.filter(|all| !all.is_empty()).map(|all| {
            let (profiles, own): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            let stages = TlsStages::declare_all(graph, own, &[]);
            Tls { stages, profiles: profiles.into() }
        });
        let tls_stages = tls.as_ref().map(|tls| tls.stages);
        let (stages, wal, delivery_limiter) =
            Stages::declare(graph, config, &settings, (&access, &counters), (store, kept.clone()));
        config.log.apply(counters.drops.events());
        let files = blocking(graph, "bridges").threads(1).state(());
        let resolver = Resolver::declare(graph);
        let fetcher = Fetcher {
            stage: stages.control,
            // A separate thread pool, so that an unreachable name server does not delay bridges.
            resolver: Resolver::declare_named(graph, "access"),
            fetched: counters.key_fetches.member("ok"),
            failed: counters.key_fetches.member("failed"),
        };
        let callouts = Fetcher {
            fetched: counters.auth_requests.member("ok"),
            failed: counters.auth_requests.member("failed"),
            ..fetcher.clone()
        };
        graph.calls(stages.control, (&passwords, tls_stages, fetcher.resolver, (files, resolver)));
        let verifiers = Arc::new(Verifiers { passwords, fetcher, callouts });
        let bridges = Arc::new(Bridges::new(names.broker_id(), (files, resolver)));
        let current = settings.load();
        let (config, guard) = (current.config.clone(), current.guard.clone());
        let connection_limit = Arc::default();
        let refused_logins = Arc::new(RefusedLogins::new(counters.logins_rejected.clone()));
        let context = Context {
            stages,
            refused_logins,
            config,
            listener: None,
            counters,
            names,
            access,
            verifiers,
            connection_limit,
            rejections: Arc::default(),
            guard,
            bans: Arc::default(),
            tls,
            wal,
            delivery_limiter,
            bridges,
            kept,
        };
        Self { context, settings }
    }

    /// The state of all connections.
    #[cfg(test)]
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Starts the maintenance of recovered state, and the bridges. Called on each processor, before [`accept`](Self::accept).
    pub fn begin(&self, start: &StartContext) {
        let Context { stages, wal, kept, .. } = &self.context;
        let processor = start.processor();
        if processor == 0 {
            wal.begin();
        }
        match kept.clone() {
            None => self.begin_sessions(processor),
            Some(kept) => {
                let own = self.clone();
                // Cannot fail: at the start no stage is full.
                let _ = stages.control.dispatch(move |_| async move {
                    if kept.wait_until_open().await {
                        own.begin_sessions(processor);
                    }
                });
            }
        }
        if processor == 0 {
            self.context.fetch();
        }
    }

    /// Starts the operations that need the sessions.
    fn begin_sessions(&self, processor: usize) {
        let Context { stages, config, wal, .. } = &self.context;
        let (context, settings) = (self.context.clone(), self.settings.clone());
        // Cannot fail: at the start no stage is full.
        let _ = stages.control.dispatch(move |_| manage(context, settings, processor));
        if let Some(peers) = self.context.counters.peers.clone().filter(|_| processor == 0) {
            let own = (self.context.clone(), self.settings.clone());
            let cluster = (config.cluster.clone(), peers);
            let _ = stages.control.dispatch(move |_| serve_cluster(own, cluster));
        }
        if processor == 0 && wal.is_enabled() {
            for partition in 0..config.runtime.workers {
                // Cannot fail: at the start no stage is full.
                let _ = stages.sessions.resume(partition, stages.routing).detach();
            }
        }
    }

    /// The numbers of drops and refusals by reason: the labels of `mqtt_messages_dropped` and similar
    /// metrics.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let drops = &self.context.counters.drops;
        DropReason::ALL.iter().map(|reason| (reason.label(), drops.count(*reason)))
    }

    /// Whether another node has adopted this node's sessions. For simulations: [`serve`] returns then.
    pub fn has_lost_sessions(&self) -> bool {
        self.context.kept.as_ref().is_some_and(|kept| kept.lost_reason().is_some())
    }

    /// The number of sessions of lost nodes that this one has adopted. For simulations: it is a metric.
    pub fn adopted_sessions(&self) -> u64 {
        self.context.kept.as_ref().map_or(0, |kept| kept.metrics.adopted.count())
    }

    /// The number of sessions that moved to this node with their clients. For simulations: it is a metric.
    pub fn moved_sessions(&self) -> u64 {
        self.context.kept.as_ref().map_or(0, |kept| kept.metrics.moved.count())
    }

    /// The number of messages sent to sessions or queued for them, including those of other nodes. For simulations: it is a
    /// metric.
    pub fn delivered_messages(&self) -> u64 {
        self.context.counters.delivered.count()
    }

    /// The number of publishers that moved to the processor of their receivers. For simulations: it is a metric.
    pub fn joined_publishers(&self) -> u64 {
        self.context.counters.joined.count()
    }

    /// Starts to accept MQTT over TCP on this processor, until shutdown.
    ///
    /// # Errors
    /// If the accepting operation is refused.
    pub fn accept(&self, listener: Listener) -> Result<(), CallError> {
        let bound = Bound::fixed(Scheme::Mqtt.at(([0, 0, 0, 0], 0)));
        self.accept_with(listener, ListenerControl::fixed(bound))
    }

    fn accept_with(
        &self,
        listener: Listener,
        control: ListenerControl<Bound>,
    ) -> Result<(), CallError> {
        let (context, settings) = (self.context.clone(), self.settings.clone());
        let stage = context.stages.control;
        stage.dispatch(move |_| accept(listener, control, context, settings)).map(drop)
    }
}

/// Runs a broker until a signal, or [`Started::control`], shuts it down; then disconnects all clients and
/// returns. `ready` is called once connections are accepted. SIGHUP is not handled;
/// [`operate`] reloads the configuration.
///
/// # Errors
/// [`ServeError`]. Only `Run` and `Broken` occur after the start.
pub fn serve(config: Config, ready: impl FnOnce(&Serving<'_>)) -> Result<(), ServeError> {
    run(config, Inherited::default(), None, Box::new(ready))
}

/// Like [`serve`], with an operator that observes the broker and reloads its configuration. A socket in
/// `inherited` is used for the address of `config` that it is bound to.
///
/// ```no_run
/// use std::sync::Arc;
/// use phalanx_broker::{Config, Inherited, Operator, Reload, Reloader, Serving, operate};
///
/// struct Root;
///
/// impl Operator<Reloader> for Root {
///     fn ready(&self, serving: &Serving<'_>) {
///         serving.urls.iter().for_each(|url| println!("listening on {url}"));
///     }
///
///     fn reload(&self, reloader: &mut Reloader) {
///         if let Err(error) = reloader.reload(Config::new()) {
///             eprintln!("{error}");
///         }
///     }
/// }
///
/// operate(Config::new(), Inherited::default(), Arc::new(Root))?;
/// # Ok::<(), phalanx_broker::ServeError>(())
/// ```
///
/// # Errors
/// Same as [`serve`].
pub fn operate(
    config: Config,
    inherited: Inherited<Scheme>,
    operator: Arc<dyn Operator<Reloader>>,
) -> Result<(), ServeError> {
    let ready = operator.clone();
    let operator = config.runtime.signals.then_some(operator);
    run(config, inherited, operator, Box::new(move |serving| ready.ready(serving)))
}

/// Like [`serve`]; `operator`, if any, reloads the configuration. This function has no type parameters, so that only
/// this crate compiles the broker.
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
    config.limits.connections = config.runtime.connection_limit(config.limits.connections, 0);
    let listeners = Listeners::bind(&config.listen, config.runtime.workers, inherited)?;
    let (commands, addresses, urls) =
        (listeners.commands(), listeners.addresses(), listeners.urls());
    let access = access::open(&config)?;
    let (tls, mut warnings) = certificates(&config)?;
    warnings.extend(access.load().warnings().chain(config.limits.warning()));
    let mut graph = Graph::new();
    let store = config.persistence_dir.as_ref().map(|path| open(&config, path)).transpose()?;
    let broker =
        Broker::declare_with(&mut graph, &config, access.clone(), (store, Some(tls.clone())));
    let settings = broker.settings.clone();
    let events = broker.context.events().clone();
    let bridges = broker.context.bridges.clone();
    let running = config.clone();
    let reloader = Reloader { settings, access, tls, listeners, events, bridges, running };
    let hangups = operator.and_then(|operator| reload_at_sighup(operator, reloader));
    let start = |start: &StartContext| {
        broker.begin(start);
        let ends = hangups.as_ref().filter(|_| start.processor() == 0).map(SighupHandler::handle);
        let own = broker.clone();
        let manager =
            ListenerManager::new(commands.clone(), start.processor(), move |listener, control| {
                own.accept_with(listener, control)
            })?;
        broker.context.stages.control.dispatch(move |_| manager.run(ends))?;
        if start.processor() == 0 {
            let Context { stages, counters, wal, .. } = &broker.context;
            let (drops, wal) = (counters.drops.clone(), wal.clone());
            stages.control.dispatch(move |_| log(drops, wal))?;
            let routing = stages.routing;
            stages.control.dispatch(move |_| sweep(routing))?;
            let own = broker.context.clone();
            stages.control.dispatch(move |_| trim(own))?;
        }
        if let (0, Some(kept), Some(path)) =
            (start.processor(), &broker.context.kept, &config.persistence_dir)
        {
            let (kept, context, path) = (kept.clone(), broker.context.clone(), path.clone());
            let ended = async move { end_without_sessions(&kept, &context, path).await };
            broker.context.stages.control.dispatch(move |_| ended)?;
        }
        if start.processor() == 0 && !config.system_interval.is_zero() {
            let (context, interval) = (broker.context.clone(), config.system_interval);
            broker.context.stages.control.dispatch(move |_| publish_status(context, interval))?;
        }
        Ok(())
    };
    let admin_context = broker.context.clone();
    let pages = move |request| admin::answer(admin_context.clone(), request);
    let runtime = config.runtime.build().prefetch_after_sleep(true).admin_pages("/broker", pages);
    let runtime =
        broker.context.bridges.counters().into_iter().fold(runtime, Runtime::register_counters);
    let up = |up: &Started| {
        ready(&Serving { addresses: &addresses, urls: &urls, warnings: &warnings, up });
    };
    let result = broker.context.counters.register_metrics(runtime).run_with_ready(graph, start, up);
    broker.context.events().close();
    result?;
    if let Some(reason) = broker.context.kept.as_ref().and_then(|kept| kept.lost_reason()) {
        return Err(ServeError::Adopted(reason));
    }
    match broker.context.wal.fatal_error() {
        Some(reason) => Err(ServeError::Broken(reason.to_owned())),
        None => Ok(()),
    }
}

/// Ends the program when another node has adopted this node's sessions, and marks the journal so that the next start does
/// not use it.
async fn end_without_sessions(kept: &Kept, context: &Context, path: PathBuf) {
    if let Either::Left(reason) = select(Box::pin(kept.wait_until_fenced()), draining()).await {
        let marked = context.bridges.files.call(move |()| mark(&path, &reason)).await;
        if !matches!(marked, Ok(Ok(()))) {
            // Without the mark, the next start learns of the adoption from the lease.
            report("cluster: cannot mark the persistence directory");
        }
        drain();
    }
}

/// The certificates and the authorities of client certificates: those for all addresses (`None`), and those of single
/// addresses.
pub(crate) type TlsProfiles = Vec<(Option<ListenAddress>, Profile)>;

/// Loads the certificates and the authorities, if configured; also returns warnings.
fn certificates(config: &Config) -> Result<(TlsProfiles, Vec<String>), CertificateError> {
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    for (address, tls) in config.tls_profiles() {
        let (certificates, found) = Certificates::load(vec![tls.source()], SystemTime::now())?;
        let (certificates, clients) = (Arc::new(certificates), tls.clients()?);
        all.push((address, Profile { certificates, clients }));
        warnings.extend(found);
    }
    Ok((all, warnings))
}
