//! The settings in force: the configuration and the state derived from it. A reload replaces them as a whole.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use phalanx_service::{ConnectionLimit, ListenAddress};

use crate::config::{Config, Limits, ListenerConfig};
use crate::limits::peer::Guard;

/// The settings shared by all processors; a reload stores new ones.
pub(crate) type SharedSettings = Arc<ArcSwap<Settings>>;

/// A configuration and the state derived from it. A connection keeps the settings with which it was accepted.
pub(crate) struct Settings {
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) guard: Guard,
    /// The settings of addresses that have their own.
    listeners: Vec<ListenerSettings>,
}

/// The settings of an address that has its own.
pub(crate) struct ListenerSettings {
    pub(crate) address: ListenAddress,
    /// The configuration that applies there.
    pub(crate) config: Arc<Config>,
    /// The number of connections to the address, and its limit.
    pub(crate) open: Arc<ConnectionLimit>,
    pub(crate) most: usize,
}

impl Settings {
    /// Derives settings from `config`. If the limits per address are unchanged, the connection counts of `before` are
    /// kept; otherwise counting restarts.
    pub(crate) fn new(config: Config, before: Option<&Self>) -> Self {
        let limits = Arc::new(config.limits.clone());
        let bounds = |limits: &Limits| (limits.per_address, limits.connection_rate);
        let same = before.filter(|before| bounds(&before.limits) == bounds(&limits));
        let guard = same.map_or_else(|| Guard::new(&limits), |before| before.guard.clone());
        let listener = |declared: &ListenerConfig| {
            let address = declared.address.address;
            let before = before.and_then(|before| before.listener(address));
            let open = before.map_or_else(Arc::default, |before| before.open.clone());
            let (config, most) =
                (Arc::new(config.at(address)), declared.connections.unwrap_or(usize::MAX));
            ListenerSettings { address, config, open, most }
        };
        let listeners = config.listeners.iter().map(listener).collect();
        Self { config: Arc::new(config), limits, guard, listeners }
    }

    /// Whether the broker listens at an address.
    pub(crate) fn has(&self, address: ListenAddress) -> bool {
        self.config.listen.iter().any(|listen| listen.address == address)
    }

    /// The settings of an address that has its own.
    pub(crate) fn listener(&self, address: ListenAddress) -> Option<&ListenerSettings> {
        self.listeners.iter().find(|listener| listener.address == address)
    }
}

/// The limits in force, cached on one processor. They change only in [`refresh`](Self::refresh).
pub(crate) struct LiveLimits {
    limits: Arc<Limits>,
    settings: Cache<SharedSettings, Arc<Settings>>,
}

impl LiveLimits {
    pub(crate) fn new(settings: SharedSettings) -> Self {
        let mut settings = Cache::new(settings);
        Self { limits: settings.load().limits.clone(), settings }
    }

    /// Loads the limits of the last reload. Costs one atomic load if nothing has changed.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let limits = &self.settings.load().limits;
        if !Arc::ptr_eq(limits, &self.limits) {
            self.limits = limits.clone();
        }
    }
}

impl Deref for LiveLimits {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.limits
    }
}
