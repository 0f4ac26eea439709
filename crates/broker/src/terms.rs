//! By what a broker goes now: its configuration, and what was made of that.

use std::ops::Deref;
use std::sync::Arc;

use crate::config::{Config, Limits};
use crate::connection::guest::Guard;
use crate::newest::{Newest, Seen};

/// The newest terms; an operator may put others in their place.
pub(crate) type Live = Newest<Terms>;

/// A configuration as all go by it. What has come by one goes on by it, unless it asks for the newest.
pub(crate) struct Terms {
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) guard: Guard,
}

impl Terms {
    /// Goes by `config`, after `before` if that was followed: connections of an address stay counted where bounds on
    /// them are the same; otherwise counting begins anew.
    pub(crate) fn new(config: Config, before: Option<&Arc<Self>>) -> Self {
        let limits = Arc::new(config.limits.clone());
        let bounds = |limits: &Limits| (limits.per_address, limits.connection_rate);
        let same = before.filter(|before| bounds(&before.limits) == bounds(&limits));
        let guard = same.map_or_else(|| Guard::new(&limits), |before| before.guard.clone());
        Self { config: Arc::new(config), limits, guard }
    }
}

/// The limits of somebody who goes by the newest ones whenever he asks for them.
pub(crate) struct Followed {
    limits: Arc<Limits>,
    seen: Seen<Terms>,
    live: Live,
}

impl Followed {
    pub(crate) fn new(live: Live) -> Self {
        let seen = live.current();
        Self { limits: seen.get().limits.clone(), seen, live }
    }

    /// Goes by the newest: one load where they have not changed.
    #[inline]
    pub(crate) fn follow(&mut self) {
        if self.seen.is_old(&self.live) {
            self.take_over();
        }
    }

    #[cold]
    fn take_over(&mut self) {
        self.limits = self.seen.refresh(&self.live).limits.clone();
    }
}

impl Deref for Followed {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.limits
    }
}
