//! The states of all bridges, for the admin pages and the metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::metrics::{Counter, Family};
use phalanx::net::Resolver;
use phalanx::sync::oneshot;
use phalanx_mqtt::Reason;
use serde::Serialize;

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

/// The state of one bridge.
pub(crate) struct BridgeStatus {
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    remote: Option<String>,
    /// Time of the last change, by the runtime's clock.
    since: Duration,
    error: Option<String>,
    attempts: u64,
}

/// A bridge as shown.
#[derive(Debug, Serialize)]
pub(crate) struct BridgeView {
    name: String,
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<String>,
    /// Seconds since the last change.
    seconds: u64,
    /// The last error, until the bridge is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    attempts: u64,
    received_total: u64,
    sent_total: u64,
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
        let new = || {
            Arc::new(BridgeStatus {
                received: self.received.member(name),
                sent: self.sent.member(name),
                state: Mutex::default(),
            })
        };
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

impl BridgeStatus {
    /// The bridge is connected to `remote`.
    pub(crate) fn connected(&self, remote: &str, now: Duration) {
        let mut state = lock(&self.state);
        *state = State {
            remote: Some(remote.to_owned()),
            since: now,
            error: None,
            attempts: state.attempts,
        };
    }

    /// An attempt to connect begins.
    pub(crate) fn tries(&self) {
        lock(&self.state).attempts += 1;
    }

    /// The remote broker ended the connection with this reason.
    pub(super) fn disconnected(&self, reason: Reason) {
        self.ended(format!("the remote broker disconnected: {reason}"));
    }

    /// The connection ends for this reason.
    pub(super) fn ended(&self, why: String) {
        lock(&self.state).error = Some(why);
    }

    /// The reason that the remote broker gave for the end of the connection.
    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.state).error.clone()
    }

    /// The bridge is not connected. Returns whether the error differs from the last one.
    pub(crate) fn failed(&self, error: String, now: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.remote.take().is_some() {
            state.since = now;
        }
        let is_new = state.error.as_ref() != Some(&error);
        state.error = Some(error);
        is_new
    }

    fn view(&self, name: &str, now: Duration) -> BridgeView {
        let State { remote, since, error, attempts } = lock(&self.state).clone();
        BridgeView {
            name: name.to_owned(),
            connected: remote.is_some(),
            remote,
            seconds: now.saturating_sub(since).as_secs(),
            error,
            attempts,
            received_total: self.received.count(),
            sent_total: self.sent.count(),
        }
    }
}
