//! Metrics of one listen address.

use phalanx::Runtime;
use phalanx::metrics::{Counter, Family, Gauge};

use crate::listen::Listen;

/// The metrics of all listen addresses, which may change while the broker runs.
#[derive(Clone, Debug)]
pub(crate) struct ListenerFamilies {
    connections: Family<Gauge>,
    accepted: Family<Counter>,
    bytes_received: Family<Counter>,
    bytes_sent: Family<Counter>,
}

/// The metrics of one address.
#[derive(Clone, Debug)]
pub(crate) struct ListenerMetrics {
    pub(crate) listen: Listen,
    /// Current connections of accepted clients.
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
}

impl ListenerFamilies {
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

    /// The metrics of an address, which start at zero.
    pub(crate) fn of(&self, listen: Listen) -> ListenerMetrics {
        let url = listen.to_string();
        ListenerMetrics {
            listen,
            connections: self.connections.member(&url),
            accepted: self.accepted.member(&url),
            bytes_received: self.bytes_received.member(&url),
            bytes_sent: self.bytes_sent.member(&url),
        }
    }

    /// Registers all with the runtime's metrics.
    pub(crate) fn show(&self, runtime: Runtime) -> Runtime {
        let Self { connections, accepted, bytes_received, bytes_sent } = self;
        [accepted, bytes_received, bytes_sent]
            .into_iter()
            .fold(runtime.register_gauges(connections), Runtime::register_counters)
    }
}
