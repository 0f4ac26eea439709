//! What is counted of messages and clients, beside what the runtime counts of operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use phalanx::Runtime;
use phalanx::metrics::Counter;

use crate::drops::Drops;
use crate::routing::subscribers::cost;

/// Counts of the whole broker. Each is told once a cohort, or once a connection.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) logins_refused: Counter,
    pub(crate) received: Counter,
    pub(crate) delivered: Counter,
    pub(crate) drops: Drops,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    /// Clients that are connected; sessions, theirs among them; subscriptions; retained messages.
    pub(crate) connected: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) subscriptions: Gauge,
    /// What subscriptions take, about, in bytes.
    pub(crate) subscription_bytes: Gauge,
    pub(crate) retained: Gauge,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let counter = Counter::new;
        Self {
            connections: counter("mqtt_connections_accepted", "Clients that were let in."),
            logins_refused: counter(
                "mqtt_logins_refused",
                "Logins that were refused: wrong, too many at once, or locked out.",
            ),
            received: counter("mqtt_messages_received", "Messages that clients have published."),
            delivered: counter(
                "mqtt_messages_delivered",
                "Messages handed to sessions, each as often as it is for one.",
            ),
            drops: Drops::new(),
            bytes_received: counter("mqtt_bytes_received", "Bytes that clients have sent."),
            bytes_sent: counter("mqtt_bytes_sent", "Bytes that were sent to clients."),
            connected: Gauge::default(),
            sessions: Gauge::default(),
            subscriptions: Gauge::default(),
            subscription_bytes: Gauge::default(),
            retained: Gauge::default(),
        }
    }

    /// A client has a subscription more that is known by `key`.
    pub(crate) fn subscribed(&self, key: &str) {
        self.subscriptions.add(1);
        self.subscription_bytes.add(cost(key) as i64);
    }

    /// A client has a subscription less.
    pub(crate) fn unsubscribed(&self, key: &str) {
        self.subscriptions.add(-1);
        self.subscription_bytes.add(-(cost(key) as i64));
    }

    /// Has them shown where the runtime shows its own.
    pub(crate) fn show(&self, runtime: Runtime) -> Runtime {
        let Self { connections, logins_refused, received, delivered, drops, .. } = self;
        let Self { bytes_received, bytes_sent, .. } = self;
        [connections, logins_refused, received, delivered, bytes_received, bytes_sent]
            .into_iter()
            .chain(drops.counters())
            .fold(runtime, Runtime::register_counter)
    }
}

/// How many there are of something at the moment. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// So many more; less than none for fewer.
    pub(crate) fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: usize) {
        self.0.store(count as i64, Ordering::Relaxed);
    }

    /// How many there are; others may just be adding.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0) as u64
    }
}
