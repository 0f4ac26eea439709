//! The thread that orders and renews certificates.

use std::io;
use std::sync::Arc;
use std::thread;

use phalanx_tls::Certificates;

use crate::challenges::Challenges;
use crate::metrics::Metrics;
use crate::plan::Plan;
use crate::plan_task::PlanTask;
use crate::shared::{MAX_SLEEP, Shared};

/// Keeps the certificates of a [`Plan`]. Its thread begins with the first plan, and ends after the manager is dropped.
#[derive(Debug)]
pub struct Manager(Arc<Shared>);

impl Manager {
    /// A manager without a plan, which renews files of `certificates`.
    pub fn new(certificates: Arc<Certificates>, challenges: Challenges) -> Self {
        let (state, changed) = Default::default();
        let metrics = Metrics::new();
        Self(Arc::new(Shared { state, changed, certificates, challenges, metrics }))
    }

    /// The metrics, which it also updates without a plan.
    pub fn metrics(&self) -> Metrics {
        self.0.metrics.clone()
    }

    /// Replaces the plan. An order in progress ends. Certificates that could not be issued are tried again at once,
    /// except by the first plan, so that a program that restarts again and again respects the limits of the authority.
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
        // A request to the authority may be in progress, so the thread is not joined.
        self.0.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

/// Keeps the certificates of one plan after another, until the manager is dropped.
fn run(shared: &Shared) {
    let mut version = 0;
    loop {
        let state = shared.lock();
        if state.is_stopped {
            return;
        }
        let is_first = version == 0;
        version = state.version;
        let plan = state.plan.clone();
        drop(state);
        if let Some(plan) = plan {
            PlanTask::new(shared, &plan, version).run(is_first);
        }
        shared.metrics.managed.set(0);
        shared.metrics.missing.set(0);
        shared.metrics.expiry.set(0);
        while !shared.waits_for_change(version, MAX_SLEEP) {}
    }
}
