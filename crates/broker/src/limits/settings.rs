//! The settings in force: the configuration and the state derived from it. A reload replaces them as a whole.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::config::{Config, Limits};
use crate::limits::peer::Guard;

/// The settings shared by all processors; a reload stores new ones.
pub(crate) type SharedSettings = Arc<ArcSwap<Settings>>;

/// A configuration and the state derived from it. A connection keeps the settings that it was accepted with.
pub(crate) struct Settings {
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) guard: Guard,
}

impl Settings {
    /// Derives settings from `config`. They keep the connection counts per address of `before` if the limits on
    /// them are unchanged; otherwise counting restarts.
    pub(crate) fn new(config: Config, before: Option<&Self>) -> Self {
        let limits = Arc::new(config.limits.clone());
        let bounds = |limits: &Limits| (limits.per_address, limits.connection_rate);
        let same = before.filter(|before| bounds(&before.limits) == bounds(&limits));
        let guard = same.map_or_else(|| Guard::new(&limits), |before| before.guard.clone());
        Self { config: Arc::new(config), limits, guard }
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

    /// Adopts the limits of the last reload. Costs one atomic load if nothing has changed.
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
