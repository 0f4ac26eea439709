//! The thread that orders and renews certificates.

use std::mem::take;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use phalanx::runtime::report;
use phalanx_tls::Certificates;

use crate::challenges::Challenges;
use crate::metrics::Metrics;
use crate::plan::Plan;
use crate::plan_task::{CarriedState, PlanTask};
use crate::shared::{MAX_SLEEP, Shared};

/// Delay after a panic until the work begins again.
const RESTART_DELAY: Duration = Duration::from_secs(60 * 60);

/// Maintains the certificates of a [`Plan`]. Its thread starts with the first plan, and ends after the manager is
/// dropped.
#[derive(Debug)]
pub struct Manager(Arc<Shared>);

impl Manager {
    /// A manager without a plan, for `certificates`.
    pub fn new(certificates: Arc<Certificates>, challenges: Challenges) -> Self {
        let (state, changed) = Default::default();
        let metrics = Metrics::new();
        Self(Arc::new(Shared { state, changed, certificates, challenges, metrics }))
    }

    /// The metrics, which it also updates without a plan.
    pub fn metrics(&self) -> Metrics {
        self.0.metrics.clone()
    }

    /// Replaces the plan. An order in progress continues if the new plan has its certificate. Certificates that could
    /// not be issued are tried again immediately, unless several attempts have failed or this is the first plan. So a
    /// program that restarts or reloads repeatedly respects the limits of the authority.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn set_plan(&self, plan: Option<Plan>) -> io::Result<()> {
        let mut state = self.0.lock();
        if plan.is_some() && !state.has_thread {
            let shared = self.0.clone();
            thread::Builder::new().name("acme".into()).spawn(move || run(&shared))?;
            state.has_thread = true;
        }
        state.plan = plan.map(Arc::new);
        state.version += 1;
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // The thread is not joined, because a request to the authority may be in progress.
        self.0.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

/// Maintains the certificates of one plan after another, until the manager is dropped.
fn run(shared: &Shared) {
    let mut carried_state = CarriedState::default();
    loop {
        let state = shared.lock();
        if state.is_stopped {
            return;
        }
        let (version, plan) = (state.version, state.plan.clone());
        drop(state);
        let Some(plan) = plan else {
            shared.metrics.set_certificates(0, 0, Duration::ZERO);
            while !shared.wait_for_change(version, MAX_SLEEP) {}
            continue;
        };
        let previous = take(&mut carried_state);
        match catch_panic(|| PlanTask::new(shared, plan, version, previous).run()) {
            Ok(next) => carried_state = next,
            // The stored state prevents immediate new attempts.
            Err(panic) => {
                report(format_args!(
                    "acme: managing certificates panicked: {panic}; next attempt in an hour, or at SIGHUP"
                ));
                shared.wait_for_change(version, RESTART_DELAY);
            }
        }
    }
}

/// Runs `work`. A panic is an error with its message.
fn catch_panic<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // The state of the work is not used after a panic, and shared state is always consistent.
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        let number = 2;
        assert_eq!(catch_panic(|| panic!("{number}")), Err::<(), _>("2".to_owned()));
        assert_eq!(catch_panic(|| panic!("text")), Err::<(), _>("text".to_owned()));
    }
}
