//! All bridges of a broker, and their shared state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::metrics::{Counter, Family};
use phalanx::net::Resolver;
use phalanx::sync::oneshot;

use crate::link::status::{BridgeStatus, BridgeView};
use crate::lock::lock;

/// All bridges of a broker.
pub(crate) struct Bridges {
    /// The identifier of this broker in messages.
    pub(crate) broker_id: Arc<str>,
    /// Reads files.
    pub(crate) files: BlockingStage<()>,
    /// Resolves host names.
    pub(crate) resolver: Resolver,
    received: Family<Counter>,
    sent: Family<Counter>,
    states: Mutex<BTreeMap<String, Arc<BridgeStatus>>>,
    /// Wakes the manager of each processor when the configuration changes.
    wakers: Mutex<BTreeMap<usize, oneshot::Sender<()>>>,
}

impl Bridges {
    pub(crate) fn new(
        broker_id: Arc<str>,
        (files, resolver): (BlockingStage<()>, Resolver),
    ) -> Self {
        let counters = |name, help| Family::counters(name, help, "bridge");
        Self {
            broker_id,
            files,
            resolver,
            received: counters(
                "mqtt_bridge_messages_received",
                "Messages of the remote broker that were forwarded, by bridge.",
            ),
            sent: counters(
                "mqtt_bridge_messages_sent",
                "Messages forwarded to the remote broker, repetitions included, by bridge.",
            ),
            states: Mutex::default(),
            wakers: Mutex::default(),
        }
    }

    /// The metrics of messages.
    pub(crate) fn counters(&self) -> [&Family<Counter>; 2] {
        [&self.received, &self.sent]
    }

    /// The state of the bridge with this name.
    pub(crate) fn status(&self, name: &str) -> Arc<BridgeStatus> {
        let of_bridge = |family: &Family<Counter>| family.member(name);
        let new = || Arc::new(BridgeStatus::new(of_bridge(&self.received), of_bridge(&self.sent)));
        lock(&self.states).entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Forgets the state of a bridge that was removed.
    pub(crate) fn forget(&self, name: &str) {
        lock(&self.states).remove(name);
    }

    /// The states of all bridges at `now`.
    pub(crate) fn views(&self, now: Duration) -> Vec<BridgeView> {
        let states = lock(&self.states);
        states.iter().map(|(name, status)| status.view(name, now)).collect()
    }

    /// Completes when the configuration changes. Called before the configuration is read.
    pub(crate) fn changed(&self, processor: usize) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        lock(&self.wakers).insert(processor, sender);
        receiver
    }

    /// Wakes the managers after a change of the configuration.
    pub(crate) fn wake(&self) {
        for sender in std::mem::take(&mut *lock(&self.wakers)).into_values() {
            sender.send(());
        }
    }
}
