//! The state shared by all connections.

pub(crate) mod stages;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx_service::{ConnectionLimit, ListenAddress};
use phalanx_tls::TlsStages;

use crate::access::bans::Bans;
use crate::access::{Access, Verifiers};
use crate::config::Config;
use crate::context::stages::Stages;
use crate::counters::Counters;
use crate::durable::Wal;
use crate::events::EventLog;
use crate::events::traces::Traces;
use crate::kept::state::Kept;
use crate::limits::delivery_limiter::DeliveryLimiter;
use crate::limits::peer::Guard;
use crate::limits::refused_logins::RefusedLogins;
use crate::link::registry::Bridges;

/// State shared by all connections.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) stages: Stages,
    /// The configuration, with the settings of the address at which the connection was accepted.
    pub(crate) config: Arc<Config>,
    /// That address, if it has its own settings.
    pub(crate) listener: Option<ListenAddress>,
    /// Shared, because each connection keeps a context.
    pub(crate) counters: Arc<Counters>,
    pub(crate) names: Arc<Names>,
    pub(crate) access: Access,
    pub(crate) verifiers: Arc<Verifiers>,
    pub(crate) refused_logins: Arc<RefusedLogins>,
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    /// The limit of connections that wait for a rejecting CONNACK.
    pub(crate) rejections: Arc<ConnectionLimit>,
    pub(crate) guard: Guard,
    pub(crate) bans: Arc<Bans>,
    /// The stages of TLS handshakes, if there is a certificate.
    pub(crate) tls: Option<Tls>,
    pub(crate) wal: Wal,
    pub(crate) delivery_limiter: DeliveryLimiter,
    pub(crate) bridges: Arc<Bridges>,
    /// The state of kept sessions, if the cluster keeps sessions.
    pub(crate) kept: Option<Arc<Kept>>,
}

/// The stages of TLS handshakes.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) stages: TlsStages,
    /// The address of each profile; `None` for the profile of all other addresses.
    pub(crate) profiles: Arc<[Option<ListenAddress>]>,
}

impl Context {
    /// The stages of TLS handshakes, and the profile of the address at which the connection was accepted.
    pub(crate) fn tls(&self) -> Option<(TlsStages, usize)> {
        let Tls { stages, profiles } = self.tls.as_ref()?;
        let find = |address| profiles.iter().position(|profile| *profile == address);
        let profile =
            self.listener.and_then(|listener| find(Some(listener))).or_else(|| find(None))?;
        Some((*stages, profile))
    }

    /// Starts to fetch the keys that the policy in force has by URL, so that the first login does not wait for them.
    pub(crate) fn fetch(&self) {
        let own = self.clone();
        // If the stage is full, the first login fetches them.
        let _ = self.stages.control.dispatch(move |_| async move {
            own.access.load_full().fetch(&own.verifiers).await;
        });
    }

    /// The traces of operators.
    pub(crate) fn traces(&self) -> &Traces {
        self.events().traces()
    }

    /// The event log.
    pub(crate) fn events(&self) -> &EventLog {
        self.counters.drops.events()
    }
}

/// Generator of client identifiers that other clients cannot guess, except in simulations.
pub(crate) struct Names {
    secret: [RandomState; 2],
    seed: Option<u64>,
    next: AtomicU64,
}

impl Names {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { secret: [RandomState::new(), RandomState::new()], seed, next: AtomicU64::new(0) }
    }

    fn hash(&self, place: usize, number: u64) -> u64 {
        let fixed = BuildHasherDefault::<DefaultHasher>::default();
        match self.seed {
            None => self.secret[place].hash_one(number),
            Some(seed) => fixed.hash_one((seed, place, number)),
        }
    }

    /// An identifier of this broker, for as long as it runs.
    pub(crate) fn broker_id(&self) -> Arc<str> {
        format!("{:016x}", self.hash(0, u64::MAX)).into()
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("auto-{:016x}{:016x}", self.hash(0, number), self.hash(1, number))
    }
}
