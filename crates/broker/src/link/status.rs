//! The state of a bridge, for the admin pages and the metrics.

use std::sync::Mutex;
use std::time::Duration;

use phalanx::metrics::Counter;
use phalanx_mqtt::Reason;
use serde::Serialize;

use crate::lock::lock;

/// The state of one bridge.
pub(crate) struct BridgeStatus {
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    remote: Option<String>,
    /// Time of the last change, on the runtime's clock.
    since: Duration,
    error: Option<String>,
    attempts: u64,
}

/// A bridge as shown to an operator.
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

impl BridgeStatus {
    /// Creates the state of a bridge with these message counters.
    pub(super) fn new(received: Counter, sent: Counter) -> Self {
        Self { received, sent, state: Mutex::default() }
    }

    pub(crate) fn set_connected(&self, remote: &str, now: Duration) {
        let mut state = lock(&self.state);
        *state = State {
            remote: Some(remote.to_owned()),
            since: now,
            error: None,
            attempts: state.attempts,
        };
    }

    pub(crate) fn count_attempt(&self) {
        lock(&self.state).attempts += 1;
    }

    /// Records that the remote broker ended the connection, with this reason.
    pub(super) fn record_disconnect(&self, reason: Reason) {
        self.set_error(format!("the remote broker disconnected: {reason}"));
    }

    /// Records the reason for which the connection ended.
    pub(super) fn set_error(&self, reason: String) {
        lock(&self.state).error = Some(reason);
    }

    /// The last error, or the reason that the remote broker gave for ending the connection.
    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.state).error.clone()
    }

    /// Records that the bridge is not connected. Returns whether the error differs from the last one.
    pub(crate) fn set_disconnected(&self, error: String, now: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.remote.take().is_some() {
            state.since = now;
        }
        let is_new = state.error.as_ref() != Some(&error);
        state.error = Some(error);
        is_new
    }

    /// The state at `now`, as shown to an operator.
    pub(super) fn view(&self, name: &str, now: Duration) -> BridgeView {
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
