//! The broker's stages, in wavefront order.

use std::sync::{Arc, Mutex, PoisonError};

use phalanx::blocking::blocking;
use phalanx::net::Resolver;
use phalanx::{CallError, Graph, SharedStage, sleep};
use phalanx_store::Store;

use crate::access::Access;
use crate::config::Config;
use crate::counters::Counters;
use crate::durable::Wal;
use crate::durable::disk_timeout::DISK_TIMEOUT;
use crate::durable::recovery::RecoveredState;
use crate::kept::mirror::StreamMirror;
use crate::kept::state::{ELECTION_TIME, Kept};
use crate::limits::delivery_limiter::DeliveryLimiter;
use crate::limits::settings::{LiveLimits, SharedSettings};
use crate::model::client_key::ClientKey;
use crate::requests::Routes;
use crate::routing::router::Router;
use crate::routing::stage;
use crate::session::operations::{RETRY_DELAY, SessionStage};
use crate::session::partition::Sessions;
use crate::session::partition::close::Closing;
use crate::session::state::directory::Directory;

/// Maximum cohort of operations on sockets. The kernel state of more sockets, about 10 KiB each, would not fit the cache.
const SOCKET_COHORT: usize = 64;

/// Maximum number of queued operations of the control stage per processor. While it is reached, no connection is
/// accepted.
const CONTROL_QUEUE: usize = 4096;

/// Handles to all stages.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    pub(crate) control: SharedStage<()>,
    pub(crate) sessions: SessionStage,
    pub(crate) routing: Routes,
}

impl Stages {
    /// Detaches a connection from its session. Retries while the session stage is full, because an attached session
    /// cannot expire.
    pub(crate) async fn close(self, (key, connection_id): (ClientKey, u64), closing: Closing) {
        loop {
            match self.sessions.close(key, connection_id, closing, self.routing).await {
                Err(CallError::Full { .. }) => sleep(RETRY_DELAY).await,
                _ => return,
            }
        }
    }

    pub(crate) fn declare(
        graph: &mut Graph,
        config: &Config,
        settings: &SharedSettings,
        (access, counters): (&Access, &Counters),
        (store, kept): (Option<(Store, RecoveredState)>, Option<Arc<Kept>>),
    ) -> (Self, Wal, DeliveryLimiter) {
        let partitions = config.runtime.workers;
        let control =
            graph.stage("control").max_cohort(SOCKET_COHORT).capacity(CONTROL_QUEUE).shared(());
        let sessions = graph.reserve("sessions");
        let routing = graph.reserve("routing");
        let delivery = graph.stage("delivery").shared(());
        let (wal, restored) = match store {
            None => {
                graph.calls(delivery, ());
                (Wal::default(), RecoveredState::empty(partitions))
            }
            Some((store, restored)) => {
                let (is_kept, accepts_loss) = (kept.is_some(), config.accept_loss);
                let journal = store.declare_mirrored(graph, |graph, stage| {
                    let kept = kept?;
                    let files = blocking(graph, "kept").threads(1).state(());
                    let resolver = Resolver::declare_named(graph, "kept names");
                    graph.calls(stage, (files, resolver));
                    let blocking = (files, resolver);
                    Some(Box::new(move || StreamMirror::start(kept, stage, blocking, accepts_loss)))
                });
                // Commits are operations of the delivery stage.
                graph.calls(delivery, &journal);
                let timeout = if is_kept { ELECTION_TIME } else { DISK_TIMEOUT };
                let bounds = (config.limits.persistence_bytes, timeout);
                (Wal::new(journal, delivery, bounds, restored.next_session), restored)
            }
        };
        let RecoveredState { sessions: all, routes, .. } = restored;
        let directory = Directory::new(partitions);
        for (partition, recovered) in all.iter().enumerate() {
            for session in &recovered.sessions {
                directory.claim(&session.client_id, partition as u16);
            }
        }
        let all: Vec<_> = all.into_iter().map(Some).collect();
        // Each partition takes its own sessions.
        let all = Mutex::new(all);
        let (of_sessions, of_all, own) = (settings.clone(), counters.clone(), wal.clone());
        let delivery_limiter = DeliveryLimiter::new(config.limits.inflight_deliveries);
        let awaited = delivery_limiter.clone();
        // Cohorts run in order, which preserves the order of each publisher's messages.
        let sessions =
            graph.declare(sessions).partitions(partitions).partitioned(move |partition| {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let restored = all[partition].take().unwrap_or_default();
                let (settings, counters) = (of_sessions.clone(), of_all.clone());
                Sessions::new(
                    (partition, directory.clone()),
                    LiveLimits::new(settings),
                    counters,
                    (own.clone(), awaited.clone()),
                    restored,
                )
            });
        let sessions = SessionStage::new(sessions, partitions);
        let router = Router::new(
            &config.limits,
            wal.clone(),
            routes,
            (&access.load(), counters.drops.clone(), counters.peers.clone()),
        );
        let (router, of_routing) =
            ((router, access, counters), (sessions, wal.clone(), delivery_limiter.clone()));
        let live = (partitions, LiveLimits::new(settings.clone()));
        let routing = stage::declare(graph, routing, router, live, delivery, of_routing);
        graph.calls(control, (control, sessions, routing, delivery));
        graph.calls(sessions, (sessions, routing, delivery));
        graph.calls(routing, (sessions, delivery));
        graph.calls(delivery, (sessions, delivery));
        (Self { control, sessions, routing }, wal, delivery_limiter)
    }
}
