//! From a configuration to a broker that runs, and back.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx::net::{Listener, Listeners};
use phalanx::{CallError, Graph, RunError, Runtime, Start, Up};
use phalanx_access::{FileError, Passwords};

use crate::access::Access;
use crate::config::Config;
use crate::connection::accept::accept;
use crate::connection::place::Places;
use crate::counters::Counters;
use crate::reload::Hangups;
use crate::stages::Stages;

/// Why a broker does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration makes no sense.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// The address is taken, or is none of this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A file of users or of rules cannot be used.
    #[error(transparent)]
    Access(#[from] FileError),
    /// The runtime failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A broker that is up.
pub struct Serving<'a> {
    /// Where it listens, in the order of [`Config::listen`].
    pub addresses: &'a [SocketAddr],
    /// What the runtime says.
    pub up: &'a Up,
}

impl Serving<'_> {
    /// Where it is found, in the order of [`Config::listen`]: `mqtt://127.0.0.1:1883`.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.addresses.iter().map(|address| format!("mqtt://{address}"))
    }
}

/// What every connection has at hand.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) stages: Stages,
    pub(crate) config: Arc<Config>,
    pub(crate) counters: Counters,
    pub(crate) names: Arc<Names>,
    pub(crate) access: Access,
    /// Where passwords are looked at, if there are any.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) places: Arc<Places>,
}

/// Names for clients that have none, which nobody else can guess.
pub(crate) struct Names {
    secret: [RandomState; 2],
    next: AtomicU64,
}

impl Names {
    fn new() -> Self {
        Self { secret: [RandomState::new(), RandomState::new()], next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [one, other] = &self.secret;
        format!("auto-{:016x}{:016x}", one.hash_one(number), other.hash_one(number))
    }
}

/// The broker's stages in a graph: what [`serve`] runs, for a program of one's own and for simulations.
#[derive(Clone)]
pub struct Broker {
    context: Context,
}

impl Broker {
    /// Declares the broker's stages as the next of `graph`. What `config` says of addresses and of the
    /// runtime is for [`serve`], but for the number of processors, which must be that of the program.
    ///
    /// # Panics
    /// When [`Config::check`] finds a mistake, or a file of [`Config::security`] cannot be used.
    pub fn declare(graph: &mut Graph, config: &Config) -> Self {
        let mistakes = config.check();
        assert!(mistakes.is_empty(), "{}", mistakes.join("; "));
        let access = Access::open(&config.security).unwrap_or_else(|error| panic!("{error}"));
        Self::declare_with(graph, config, access)
    }

    fn declare_with(graph: &mut Graph, config: &Config, access: Access) -> Self {
        let (counters, limits) = (Counters::new(), Arc::new(config.limits.clone()));
        let passwords = config.security.passwords.as_ref().map(|_| Passwords::declare(graph));
        let stages = Stages::declare(graph, config, &limits, &access, &counters);
        let (config, names) = (Arc::new(config.clone()), Arc::new(Names::new()));
        let places = Arc::default();
        Self { context: Context { stages, config, counters, names, access, passwords, places } }
    }

    /// Begins to accept on this processor, until the program drains.
    ///
    /// # Errors
    /// When the operation that accepts is refused.
    pub fn accept(&self, listener: Listener) -> Result<(), CallError> {
        let context = self.context.clone();
        let control = context.stages.control;
        control.dispatch(move |_| accept(listener, context))
    }
}

/// Serves until the process is asked to end, or until [`Up::control`] is; then tells all clients and ends.
/// `ready` is called once connections are accepted.
///
/// # Errors
/// [`ServeError`]; when the broker was up before, only `Run`.
pub fn serve(config: Config, ready: impl FnOnce(&Serving<'_>)) -> Result<(), ServeError> {
    let mistakes = config.check();
    if !mistakes.is_empty() {
        return Err(ServeError::Config(mistakes));
    }
    let bind = |&address: &SocketAddr| {
        Listeners::bind(address, config.runtime.processors)
            .map_err(|source| ServeError::Listen { address, source })
    };
    let listeners = config.listen.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<_> = listeners.iter().map(Listeners::local_addr).collect();
    let access = Access::open(&config.security)?;
    let mut graph = Graph::new();
    let broker = Broker::declare_with(&mut graph, &config, access.clone());
    let _hangups = if config.runtime.signals { Hangups::hear(access) } else { None };
    let start = |start: &Start| {
        for listeners in &listeners {
            broker.accept(listeners.listener(start)?)?;
        }
        Ok(())
    };
    let runtime = Runtime::new()
        .processors(config.runtime.processors)
        .driver(config.runtime.driver)
        .pin(config.runtime.pin)
        .drain(config.runtime.drain)
        .admin(config.runtime.admin)
        .signals(config.runtime.signals);
    let up = |up: &Up| ready(&Serving { addresses: &addresses, up });
    broker.context.counters.show(runtime).run_and(graph, start, up)?;
    Ok(())
}
