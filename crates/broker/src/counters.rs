//! Metrics of messages and clients, in addition to the runtime's metrics of operations.

use std::sync::Arc;

use phalanx::Runtime;
use phalanx::metrics::{Counter, Family, Gauge};

use crate::access::NODE_CLIENTS;
use crate::events::EventLog;
use crate::events::drops::Drops;
use crate::limits::places::Places;
use crate::listen::metrics::ListenerFamilies;
use crate::model::subscriptions::group::is_shared;
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::peers::Peers;

/// The broker's counters and gauges. Each is updated once per cohort or per connection.
#[derive(Clone)]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) logins_rejected: Counter,
    pub(crate) key_fetches: Family<Counter>,
    pub(crate) auth_requests: Family<Counter>,
    pub(crate) received: Counter,
    pub(crate) delivered: Counter,
    pub(crate) drops: Drops,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    /// Publishers that moved to the processor of their receivers.
    pub(crate) joined: Counter,
    /// Current numbers of connected clients, of all sessions, of subscriptions and of retained messages.
    pub(crate) connected: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) places: Places,
    pub(crate) subscriptions: Gauge,
    /// Approximate memory of subscriptions, in bytes.
    pub(crate) subscription_bytes: Gauge,
    pub(crate) retained: Gauge,
    pub(crate) retained_bytes: Gauge,
    /// Messages held for clients, by session partition: waiting to be sent, and sent but not completed.
    pub(crate) queued: Family<Gauge>,
    pub(crate) queued_bytes: Family<Gauge>,
    pub(crate) inflight: Family<Gauge>,
    pub(crate) listeners: ListenerFamilies,
    pub(crate) bridges: ListenerFamilies,
    /// The state of the cluster, if this broker is a node of one.
    pub(crate) peers: Option<Arc<Peers>>,
}

impl Counters {
    pub(crate) fn new(events: EventLog) -> Self {
        let counter = Counter::new;
        let partitions = |name, help| Family::gauges(name, help, "partition");
        let sessions = Gauge::new("mqtt_sessions", "Current sessions, connected or not.");
        Self {
            connections: counter("mqtt_connections_accepted", "Accepted connections."),
            logins_rejected: counter(
                "mqtt_logins_rejected",
                "Rejected logins: wrong, locked out, or too many at once.",
            ),
            key_fetches: Family::counters(
                "mqtt_key_fetches",
                "Fetches of the keys of tokens from their URL, by result.",
                "result",
            ),
            auth_requests: Family::counters(
                "mqtt_auth_requests",
                "Requests to the HTTP service that decides about logins, by result.",
                "result",
            ),
            received: counter("mqtt_messages_received", "Messages published by clients."),
            delivered: counter(
                "mqtt_messages_delivered",
                "Messages sent to clients or queued for them.",
            ),
            drops: Drops::new(events),
            bytes_received: counter("mqtt_bytes_received", "Bytes received from clients."),
            bytes_sent: counter("mqtt_bytes_sent", "Bytes sent to clients."),
            joined: counter(
                "mqtt_publishers_joined",
                "Connections of publishers that moved to the processor of their receivers.",
            ),
            connected: Gauge::new("mqtt_connections", "Current connections of clients."),
            places: Places::of(&sessions),
            sessions,
            subscriptions: Gauge::new("mqtt_subscriptions", "Current subscriptions."),
            subscription_bytes: Gauge::new(
                "mqtt_subscription_bytes",
                "Approximate memory of the current subscriptions.",
            ),
            retained: Gauge::new("mqtt_retained_messages", "Current retained messages."),
            retained_bytes: Gauge::new(
                "mqtt_retained_bytes",
                "Memory of the current retained messages, including their index.",
            ),
            queued: partitions(
                "mqtt_queued_messages",
                "Messages waiting to be sent to clients, by partition of the sessions.",
            ),
            queued_bytes: partitions(
                "mqtt_queued_bytes",
                "Size of the messages waiting to be sent to clients, by partition of the sessions.",
            ),
            inflight: partitions(
                "mqtt_inflight_messages",
                "Messages sent to clients and not completed by them, by partition of the sessions.",
            ),
            listeners: ListenerFamilies::new(),
            bridges: ListenerFamilies::of_bridges(),
            peers: None,
        }
    }

    /// The size in bytes of all messages that wait to be sent.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.members().iter().map(|gauge| gauge.get().max(0) as u64).sum()
    }

    /// Counts a client's new subscription, and announces it to the cluster.
    pub(crate) fn subscribed(&self, client: &str, (key, size): (&str, SubscriptionSize)) {
        self.subscriptions.add(1);
        self.subscription_bytes.add(size.bytes() as i64);
        if let Some(peers) = self.peers_of(client) {
            peers.interest.add(key, size.is_computed());
            if is_shared(key) {
                peers.members.add_subscription(key);
            }
        }
    }

    /// Counts the end of a client's subscription, and withdraws it from the cluster.
    pub(crate) fn unsubscribed(&self, client: &str, (key, size): (&str, SubscriptionSize)) {
        self.subscriptions.add(-1);
        self.subscription_bytes.add(-(size.bytes() as i64));
        if let Some(peers) = self.peers_of(client) {
            peers.interest.remove(key);
            if is_shared(key) {
                peers.members.remove_subscription(key);
            }
        }
    }

    /// Announces to the cluster whether a client with these subscriptions is online. A client has to go offline before
    /// its subscriptions [end](Self::unsubscribed).
    pub(crate) fn online<'k>(
        &self,
        client: &str,
        keys: impl IntoIterator<Item = &'k str>,
        is_online: bool,
    ) {
        if let Some(peers) = self.peers_of(client) {
            peers.members.set_online(keys.into_iter().filter(|key| is_shared(key)), is_online);
        }
    }

    /// The cluster, for subscriptions of this node's clients.
    fn peers_of(&self, client: &str) -> Option<&Peers> {
        self.peers.as_deref().filter(|_| !client.starts_with(NODE_CLIENTS))
    }

    /// Registers all metrics with the runtime.
    pub(crate) fn register_metrics(&self, runtime: Runtime) -> Runtime {
        let Self { connections, logins_rejected, received, delivered, drops, .. } = self;
        let Self { bytes_received, bytes_sent, joined, .. } = self;
        let Self { connected, sessions, subscriptions, subscription_bytes, retained, .. } = self;
        let Self { retained_bytes, queued, queued_bytes, inflight, listeners, .. } = self;
        let Self { bridges, .. } = self;
        let runtime =
            [connections, logins_rejected, received, delivered, bytes_received, bytes_sent, joined]
                .into_iter()
                .chain(drops.counters())
                .fold(runtime, Runtime::register_counter);
        let runtime =
            [connected, sessions, subscriptions, subscription_bytes, retained, retained_bytes]
                .into_iter()
                .fold(runtime, Runtime::register_gauge);
        let runtime =
            [queued, queued_bytes, inflight].into_iter().fold(runtime, Runtime::register_gauges);
        let runtime = [&self.key_fetches, &self.auth_requests]
            .into_iter()
            .fold(runtime, Runtime::register_counters);
        let runtime = bridges.register_metrics(listeners.register_metrics(runtime));
        match &self.peers {
            Some(peers) => peers.status.register_metrics(runtime),
            None => runtime,
        }
    }
}
