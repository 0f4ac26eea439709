//! What is counted of messages and clients, beside what the runtime counts of operations.

use phalanx::{Counter, Runtime};

/// Counts of the whole broker. Each is told once a cohort, or once a connection.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) received: Counter,
    pub(crate) delivered: Counter,
    pub(crate) dropped: Counter,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let counter = Counter::new;
        Self {
            connections: counter("mqtt_connections", "Clients that were let in."),
            received: counter("mqtt_messages_received", "Messages that clients have published."),
            delivered: counter(
                "mqtt_messages_delivered",
                "Messages handed to sessions, each as often as it is for one.",
            ),
            dropped: counter(
                "mqtt_messages_dropped",
                "Messages that a session had no room for, as its client is slow or away.",
            ),
        }
    }

    /// Has them shown where the runtime shows its own.
    pub(crate) fn show(&self, runtime: Runtime) -> Runtime {
        [&self.connections, &self.received, &self.delivered, &self.dropped]
            .into_iter()
            .fold(runtime, Runtime::show)
    }
}
