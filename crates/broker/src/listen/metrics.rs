//! Metrics of each listen address and of each bridge.

use phalanx::Runtime;
use phalanx::metrics::{Counter, Family, Gauge};

use crate::listen::{Listen, interned};

/// The metrics of all listen addresses, which may change while the broker runs.
#[derive(Clone, Debug)]
pub(crate) struct ListenerFamilies {
    connections: Family<Gauge>,
    accepted: Family<Counter>,
    bytes_received: Family<Counter>,
    bytes_sent: Family<Counter>,
}

/// The metrics of one address, or of one bridge.
#[derive(Clone, Debug)]
pub(crate) struct ListenerMetrics {
    pub(crate) listen: &'static Listen,
    /// Current connections of accepted clients.
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
}

impl ListenerFamilies {
    /// The metrics of listen addresses.
    pub(crate) fn new() -> Self {
        let counters = |name, help| Family::counters(name, help, "listener");
        Self {
            connections: Family::gauges(
                "mqtt_listener_connections",
                "Current connections of clients, by listen address.",
                "listener",
            ),
            accepted: counters(
                "mqtt_listener_connections_accepted",
                "Accepted connections, by listen address.",
            ),
            bytes_received: counters(
                "mqtt_listener_bytes_received",
                "Bytes received from clients, by listen address.",
            ),
            bytes_sent: counters(
                "mqtt_listener_bytes_sent",
                "Bytes sent to clients, by listen address.",
            ),
        }
    }

    /// The metrics of bridges.
    pub(crate) fn of_bridges() -> Self {
        let counters = |name, help| Family::counters(name, help, "bridge");
        Self {
            connections: Family::gauges(
                "mqtt_bridge_connections",
                "Current connections to the remote broker, by bridge: 1 or 0.",
                "bridge",
            ),
            accepted: counters(
                "mqtt_bridge_connections_made",
                "Connections to the remote broker, by bridge.",
            ),
            bytes_received: counters(
                "mqtt_bridge_bytes_received",
                "Bytes of packets from the remote broker, with local topics, by bridge.",
            ),
            bytes_sent: counters(
                "mqtt_bridge_bytes_sent",
                "Bytes of packets for the remote broker, with local topics, by bridge.",
            ),
        }
    }

    /// The metrics of an address, which start at zero.
    pub(crate) fn of(&self, listen: Listen) -> ListenerMetrics {
        self.named(listen, &listen.to_string())
    }

    /// The metrics with this label.
    pub(crate) fn named(&self, listen: Listen, label: &str) -> ListenerMetrics {
        ListenerMetrics {
            listen: interned(listen),
            connections: self.connections.member(label),
            accepted: self.accepted.member(label),
            bytes_received: self.bytes_received.member(label),
            bytes_sent: self.bytes_sent.member(label),
        }
    }

    /// Registers all metrics with the runtime.
    pub(crate) fn register_metrics(&self, runtime: Runtime) -> Runtime {
        let Self { connections, accepted, bytes_received, bytes_sent } = self;
        [accepted, bytes_received, bytes_sent]
            .into_iter()
            .fold(runtime.register_gauges(connections), Runtime::register_counters)
    }
}
