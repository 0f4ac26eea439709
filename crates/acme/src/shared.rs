//! State that the manager and its thread share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx_tls::Certificates;

use crate::challenges::Challenges;
use crate::metrics::Metrics;
use crate::plan::Plan;

/// Longest sleep. The thread then reads the time of day again, in case the clock was set.
pub(crate) const MAX_SLEEP: Duration = Duration::from_secs(60 * 60);

/// The state of a manager and its thread.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) challenges: Challenges,
    pub(crate) metrics: Metrics,
}

/// The current plan.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) plan: Option<Arc<Plan>>,
    /// Version of the plan.
    pub(crate) version: u64,
    pub(crate) has_thread: bool,
    pub(crate) is_stopped: bool,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the version of the plan differs from `version`. Returns false after `limit`.
    pub(crate) fn wait_for_change(&self, version: u64, limit: Duration) -> bool {
        !self.wait_while(limit, |state| state.version == version)
    }

    /// Waits for `limit`. Returns false as soon as the program ends or `predicate` returns false.
    pub(crate) fn wait_while(&self, limit: Duration, predicate: impl Fn(&State) -> bool) -> bool {
        let predicate = |state: &mut State| !state.is_stopped && predicate(state);
        let waited = self.changed.wait_timeout_while(self.lock(), limit, predicate);
        let (_guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        result.timed_out()
    }
}
