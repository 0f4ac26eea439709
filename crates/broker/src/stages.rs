//! The broker's stages, in wavefront order.

use std::sync::Arc;

use phalanx::{Graph, SharedStage};

use crate::access::Access;
use crate::config::Config;
use crate::counters::Counters;
use crate::routing::stage;
use crate::session::table::Sessions;
use crate::session::{Routes, SessionStage};

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
        limits: &Arc<crate::config::Limits>,
        access: &Access,
        counters: &Counters,
    ) -> Self {
        let partitions = config.runtime.processors;
        let control =
            graph.stage("control").max_cohort(SOCKET_COHORT).capacity(CONTROL_QUEUE).shared(());
        let (of_sessions, own) = (limits.clone(), counters.clone());
        // In order, so that messages of one publisher stay in theirs.
        let sessions = graph.stage("sessions").in_order().partitions(partitions).partitioned(
            move |partition| Sessions::new(partition, partitions, of_sessions.clone(), own.clone()),
        );
        let sessions = SessionStage::new(sessions);
        let routing = graph.keep("routing");
        let delivery = graph.stage("delivery").in_order().shared(());
        let routing = stage::declare(
            graph,
            routing,
            (limits, access, counters),
            partitions,
            delivery,
            sessions,
        );
        Self { control, sessions, routing }
    }
}
