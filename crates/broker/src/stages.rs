//! The broker's stages, in wavefront order.

use std::sync::{Mutex, PoisonError};

use phalanx::{Graph, SharedStage};
use phalanx_store::Store;

use crate::access::Access;
use crate::config::Config;
use crate::counters::Counters;
use crate::durable::Ledger;
use crate::durable::restored::Restored;
use crate::routing::{Router, UnderWay, stage};
use crate::session::table::Sessions;
use crate::session::{Routes, SessionStage};
use crate::terms::{Followed, Live};

/// A cohort of operations that touch sockets: beyond this their kernel state, some 10 KiB each,
/// leaves the cache again.
const SOCKET_COHORT: usize = 64;

/// Operations of connections that may be queued on one processor. While there are more, no connection is
/// accepted.
const CONTROL_QUEUE: usize = 4096;

/// Handles on all stages; copied wherever an operation may invoke others.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    pub(crate) control: SharedStage<()>,
    pub(crate) sessions: SessionStage,
    pub(crate) routing: Routes,
}

impl Stages {
    pub(crate) fn declare(
        graph: &mut Graph,
        config: &Config,
        live: &Live,
        (access, counters): (&Access, &Counters),
        store: Option<(Store, Restored)>,
    ) -> (Self, Ledger, UnderWay) {
        let partitions = config.runtime.workers;
        let control =
            graph.stage("control").max_cohort(SOCKET_COHORT).capacity(CONTROL_QUEUE).shared(());
        let sessions = graph.keep("sessions");
        let routing = graph.keep("routing");
        let delivery = graph.stage("delivery").shared(());
        let (ledger, restored) = match store {
            None => (Ledger::default(), Restored::nothing(partitions)),
            Some((store, restored)) => {
                let journal = store.declare(graph);
                let most = config.limits.persistence_bytes;
                (Ledger::new(journal, delivery, most, restored.next_session), restored)
            }
        };
        let Restored { sessions: all, routes, .. } = restored;
        let all: Vec<_> = all.into_iter().map(Some).collect();
        // Each partition takes its own.
        let all = Mutex::new(all);
        let (of_sessions, of_all, own) = (live.clone(), counters.clone(), ledger.clone());
        let under_way = UnderWay::new(config.limits.inflight_deliveries);
        let awaited = under_way.clone();
        // In order, so that messages of one publisher stay in theirs.
        let sessions =
            graph.stage_at(sessions).partitions(partitions).partitioned(move |partition| {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let restored = all[partition].take().unwrap_or_default();
                let (live, counters) = (of_sessions.clone(), of_all.clone());
                Sessions::new(
                    (partition, partitions),
                    Followed::new(live),
                    counters,
                    (own.clone(), awaited.clone()),
                    restored,
                )
            });
        let sessions = SessionStage::new(sessions, partitions);
        let router = Router::new(
            &config.limits,
            ledger.clone(),
            routes,
            (access.current().get(), counters.drops.clone()),
        );
        let (router, of_routing) =
            ((router, access, counters), (sessions, ledger.clone(), under_way.clone()));
        let routing = stage::declare(graph, routing, router, partitions, delivery, of_routing);
        (Self { control, sessions, routing }, ledger, under_way)
    }
}
