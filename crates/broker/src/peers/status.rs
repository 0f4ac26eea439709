//! The states of the other nodes, for the admin pages and the metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::Runtime;
use phalanx::metrics::{Counter, Family, Gauge};
use phalanx_nats::Metrics as NatsMetrics;
use serde::Serialize;

use crate::lock::lock;

/// The states of all nodes.
pub(crate) struct Status {
    /// Whether NATS is connected.
    pub(crate) nats: Gauge,
    /// The number of other nodes that are connected.
    pub(crate) nodes: Gauge,
    /// Metrics of kept sessions.
    pub(crate) kept: KeptMetrics,
    sent: Family<Counter>,
    received: Family<Counter>,
    lag: Family<Gauge>,
    /// Metrics of the connection to NATS.
    pub(crate) messages: NatsMetrics,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    server: Option<String>,
    error: Option<String>,
    nodes: BTreeMap<Arc<str>, Arc<NodeStatus>>,
}

/// The metrics of kept sessions.
#[derive(Clone)]
pub(crate) struct KeptMetrics {
    /// Whether this node owns its sessions, and has renewed its lease.
    pub(crate) owns: Gauge,
    /// Bytes of the journal that NATS has not stored yet.
    pub(crate) lag: Gauge,
    /// Sessions adopted from lost nodes, and sessions that moved here with their clients.
    pub(crate) adopted: Counter,
    pub(crate) moved: Counter,
    /// Adopted sessions that this node has beyond its maximum number of sessions.
    pub(crate) beyond_limit: Counter,
}

/// Kept sessions as shown to an operator.
#[derive(Debug, Serialize)]
pub(crate) struct KeptView {
    /// Whether this node owns its sessions.
    pub(crate) owned: bool,
    pub(crate) lag_bytes: i64,
    pub(crate) adopted_total: u64,
    pub(crate) moved_total: u64,
    pub(crate) leases: Vec<LeaseView>,
}

/// The lease of a journal as shown to an operator.
#[derive(Debug, Serialize)]
pub(crate) struct LeaseView {
    pub(crate) journal: String,
    pub(crate) holder: String,
    /// Seconds since the lease was renewed.
    pub(crate) seconds: u64,
}

impl KeptMetrics {
    fn new() -> Self {
        let help = "Whether this node owns its kept sessions, and has renewed its lease.";
        let owns = Gauge::new("mqtt_cluster_owns_sessions", help);
        let help = "Bytes of the journal that were sent to NATS, which has not stored them.";
        let lag = Gauge::new("mqtt_cluster_journal_lag_bytes", help);
        let help = "Kept sessions adopted from lost nodes.";
        let adopted = Counter::new("mqtt_cluster_sessions_adopted", help);
        let help = "Kept sessions that moved here from other nodes with their clients.";
        let moved = Counter::new("mqtt_cluster_sessions_moved", help);
        let help = "Kept sessions adopted although this node had as many sessions as max-sessions.";
        let beyond_limit = Counter::new("mqtt_cluster_sessions_beyond_limit", help);
        Self { owns, lag, adopted, moved, beyond_limit }
    }
}

/// The state of one node.
pub(crate) struct NodeStatus {
    /// Bytes sent to the node, and received.
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
    /// Bytes sent that the node has not processed yet.
    pub(crate) lag: Gauge,
    state: Mutex<NodeState>,
}

#[derive(Clone, Default)]
struct NodeState {
    is_connected: bool,
    /// Time of the last change, on the runtime's clock.
    since: Duration,
    error: Option<String>,
    /// The client identifier of this node's session for that node.
    client: Option<Arc<str>>,
}

/// The cluster as shown to an operator.
#[derive(Debug, Serialize)]
pub(crate) struct ClusterView {
    nats: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nats_error: Option<String>,
    nodes: Vec<NodeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<KeptView>,
}

/// A node as shown to an operator.
#[derive(Debug, Serialize)]
struct NodeView {
    name: String,
    /// The client identifier of this node's session for that node; `null` before its first lane.
    client: Option<String>,
    connected: bool,
    /// Seconds since the last change.
    seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    lag_bytes: i64,
    sent_bytes_total: u64,
    received_bytes_total: u64,
}

impl Status {
    pub(super) fn new() -> Self {
        Self {
            nats: Gauge::new("mqtt_cluster_nats_connected", "Whether NATS is connected."),
            nodes: Gauge::new("mqtt_cluster_nodes", "Other nodes that are connected."),
            kept: KeptMetrics::new(),
            sent: Family::counters("mqtt_cluster_bytes_sent", "Bytes sent, by node.", "node"),
            received: Family::counters(
                "mqtt_cluster_bytes_received",
                "Bytes received, by node.",
                "node",
            ),
            lag: Family::gauges(
                "mqtt_cluster_lag_bytes",
                "Bytes that were sent to a node, which has not processed them, by node.",
                "node",
            ),
            messages: NatsMetrics::default(),
            state: Mutex::default(),
        }
    }

    /// Registers all metrics with the runtime.
    pub(crate) fn register_metrics(&self, runtime: Runtime) -> Runtime {
        let KeptMetrics { owns, lag, adopted, moved, beyond_limit } = &self.kept;
        let gauges = [&self.nats, &self.nodes, owns, lag];
        let runtime = gauges.into_iter().fold(runtime, Runtime::register_gauge);
        let runtime =
            [&self.sent, &self.received].into_iter().fold(runtime, Runtime::register_counters);
        let NatsMetrics { received, sent, dropped, connections } = &self.messages;
        [received, sent, dropped, connections, adopted, moved, beyond_limit]
            .into_iter()
            .fold(runtime.register_gauges(&self.lag), Runtime::register_counter)
    }

    /// The state of the node with this name.
    pub(crate) fn node(&self, name: &Arc<str>) -> Arc<NodeStatus> {
        let new = || {
            Arc::new(NodeStatus {
                sent: self.sent.member(name),
                received: self.received.member(name),
                lag: self.lag.member(name),
                state: Mutex::default(),
            })
        };
        lock(&self.state).nodes.entry(name.clone()).or_insert_with(new).clone()
    }

    /// Forgets the nodes that have not been connected for longer than `expiry`, except those that `is_known`. Returns
    /// their names.
    pub(crate) fn forget(
        &self,
        now: Duration,
        expiry: Duration,
        is_known: impl Fn(&str) -> bool,
    ) -> Vec<Arc<str>> {
        let is_old = |status: &NodeStatus| {
            let state = lock(&status.state);
            !state.is_connected && now.saturating_sub(state.since) > expiry
        };
        let mut removed = Vec::new();
        lock(&self.state).nodes.retain(|name, status| {
            let is_removed = !is_known(name) && is_old(status);
            removed.extend(is_removed.then(|| name.clone()));
            !is_removed
        });
        removed
    }

    /// Records the NATS server to which this node is connected, or why it is not. Returns whether this is a change.
    pub(crate) fn set_nats(&self, result: Result<String, String>) -> bool {
        let mut state = lock(&self.state);
        let previous = (state.server.clone(), state.error.clone());
        self.nats.set(i64::from(result.is_ok()));
        (state.server, state.error) = match result {
            Ok(server) => (Some(server), None),
            Err(error) => (None, Some(error)),
        };
        previous != (state.server.clone(), state.error.clone())
    }

    /// All states at `now`, including the kept sessions.
    pub(crate) fn view(&self, now: Duration, kept: Option<KeptView>) -> ClusterView {
        let state = lock(&self.state);
        let nodes = state.nodes.iter().map(|(name, status)| status.view(name, now)).collect();
        let (nats, nats_error) = (state.server.clone(), state.error.clone());
        ClusterView { nats, nats_error, nodes, kept }
    }
}

impl NodeStatus {
    /// Records that the node is connected, or why it is not. Returns whether this is a change.
    pub(crate) fn set_connection(&self, result: Result<(), String>, now: Duration) -> bool {
        let mut state = lock(&self.state);
        let is_connected = result.is_ok();
        let error = result.err();
        let is_new = state.is_connected != is_connected || state.error != error;
        if state.is_connected != is_connected {
            state.since = now;
        }
        (state.is_connected, state.error) = (is_connected, error);
        is_new
    }

    /// Sets the client identifier of the session that serves the node's lane.
    pub(crate) fn set_client(&self, client: &Arc<str>) {
        lock(&self.state).client = Some(client.clone());
    }

    fn view(&self, name: &str, now: Duration) -> NodeView {
        let NodeState { is_connected, since, error, client } = lock(&self.state).clone();
        NodeView {
            name: name.to_owned(),
            client: client.as_deref().map(str::to_owned),
            connected: is_connected,
            seconds: now.saturating_sub(since).as_secs(),
            error,
            lag_bytes: self.lag.get(),
            sent_bytes_total: self.sent.count(),
            received_bytes_total: self.received.count(),
        }
    }
}
