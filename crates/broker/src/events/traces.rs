//! Traces: the messages and connections of one client, or the messages of some topics, for a limited time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx::time::{now, time_of_day};
use phalanx_mqtt::{QoS, topic};
use serde::Serialize;

/// Maximum number of traces, and of records that each keeps.
const MAX_TRACES: usize = 8;
const MAX_RECORDS: usize = 1000;

/// Maximum duration of a trace.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(3600);

/// Maximum number of payload bytes in a record.
const MAX_PAYLOAD_BYTES: usize = 256;

/// The subject of a trace: a client, or the topics of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Target {
    Client(String),
    Filter(String),
}

/// A record of a trace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    /// Milliseconds since 1970.
    time_ms: u64,
    event: &'static str,
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<TracedMessage>,
}

#[derive(Clone, Debug, Serialize)]
struct TracedMessage {
    topic: String,
    qos: u8,
    retain: bool,
    bytes: usize,
    /// The beginning of the payload.
    payload: String,
}

#[derive(Debug)]
struct Trace {
    id: u64,
    target: Target,
    ends: Duration,
    records: VecDeque<Record>,
    /// The number of records that were discarded, oldest first, because of the limit.
    discarded: u64,
}

/// The current traces, shared by all processors.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Whether there may be a trace. Without one, an event costs one atomic load.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    all: Vec<Trace>,
}

/// A trace as shown to an operator.
#[derive(Debug, Serialize)]
pub(crate) struct TraceView {
    id: u64,
    target: Target,
    seconds_left: u64,
    discarded: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Vec<Record>>,
}

/// A message as it passes through the broker.
#[derive(Clone, Copy)]
pub(crate) struct TracedPublish<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
}

impl Traces {
    /// Whether there may be a trace.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Begins a trace. `None` if there are too many.
    pub(crate) fn begin(&self, target: Target, time: Duration) -> Option<u64> {
        let mut state = self.state();
        state.all.retain(|trace| trace.ends > now());
        if state.all.len() >= MAX_TRACES {
            return None;
        }
        state.last_id += 1;
        let (id, ends) = (state.last_id, now() + time.min(MAX_TIME));
        state.all.push(Trace { id, target, ends, records: VecDeque::new(), discarded: 0 });
        self.any.store(true, Ordering::Relaxed);
        Some(id)
    }

    /// Ends a trace and discards its records. Returns whether it existed.
    pub(crate) fn end(&self, id: u64) -> bool {
        let mut state = self.state();
        let before = state.all.len();
        state.all.retain(|trace| trace.id != id);
        self.any.store(!state.all.is_empty(), Ordering::Relaxed);
        state.all.len() < before
    }

    /// All traces, or the one with this identifier and its records.
    pub(crate) fn list(&self, id: Option<u64>) -> Vec<TraceView> {
        let state = self.state();
        let wanted = state.all.iter().filter(|trace| id.is_none_or(|id| trace.id == id));
        let view = |trace: &Trace| TraceView {
            id: trace.id,
            target: trace.target.clone(),
            seconds_left: trace.ends.saturating_sub(now()).as_secs(),
            discarded: trace.discarded,
            records: id.map(|_| trace.records.iter().cloned().collect()),
        };
        wanted.map(view).collect()
    }

    /// Records an event of a client, and the message that it concerns, if any.
    #[cold]
    pub(crate) fn record(
        &self,
        event: &'static str,
        client: &str,
        message: Option<TracedPublish<'_>>,
    ) {
        let mut state = self.state();
        let mut is_current = false;
        for trace in state.all.iter_mut().filter(|trace| trace.ends > now()) {
            is_current = true;
            let matches = match (&trace.target, &message) {
                (Target::Client(own), _) => own == client,
                (Target::Filter(filter), Some(message)) => topic::matches(filter, message.topic),
                (Target::Filter(_), None) => false,
            };
            if !matches {
                continue;
            }
            if trace.records.len() >= MAX_RECORDS {
                trace.records.pop_front();
                trace.discarded += 1;
            }
            let time_ms = time_of_day().as_millis() as u64;
            let message = message.as_ref().map(TracedMessage::of);
            trace.records.push_back(Record { time_ms, event, client: client.to_owned(), message });
        }
        // The records of an expired trace stay until the next one begins, but nothing more is recorded.
        self.any.store(is_current, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TracedMessage {
    fn of(message: &TracedPublish<'_>) -> Self {
        let TracedPublish { topic, payload, qos, retain } = *message;
        let shown = &payload[..payload.len().min(MAX_PAYLOAD_BYTES)];
        Self {
            topic: topic.to_owned(),
            qos: qos as u8,
            retain,
            bytes: payload.len(),
            payload: String::from_utf8_lossy(shown).into_owned(),
        }
    }
}
