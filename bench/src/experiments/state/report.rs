//! The report, as text and as JSON.

use std::collections::BTreeMap;

use crate::measure::record;

record! {
    /// The report of `phalanx-bench state`.
    pub(crate) struct Report {
        /// One per server.
        rows: Vec<Row> | "", 0;
        connections: usize => "connections", 0;
        sessions: usize => "sessions", 0;
        retained: usize => "retained messages", 0;
        queued: usize => "queued messages", 0;
        /// Payload size in bytes.
        payload: usize;
        /// Versions of the peers; `None` if not installed.
        peers: BTreeMap<&'static str, Option<String>> => "peer", 0;
    }
}

record! {
    /// A server.
    #[derive(Default)]
    pub(crate) struct Row {
        server: String => "server", 0;
        /// Memory of an idle connection, in bytes.
        connection_bytes: f64 => "connection", 0;
        /// Memory that a subscription adds.
        subscription_bytes: f64 => "subscription", 0;
        /// Memory per connection and subscription that is left when all clients are gone.
        left_bytes: f64 => "left", 0;
        /// The same when they are back: above the first figure, memory is lost.
        again_bytes: f64 => "again", 0;
        /// Memory of a retained message.
        retained_bytes: Option<f64> => "retained", 0;
        /// Memory of a session with a subscription and without a connection.
        session_bytes: Option<f64> => "session", 0;
        /// Memory of a queued message.
        queued_bytes: Option<f64> => "queued", 0;
        /// Time from the start of the process to the first CONNACK, in seconds.
        restart_s: Option<f64> => "restart s", 2;
        /// Resident memory after the restart, in bytes.
        restarted_bytes: Option<u64> => "resident", 0;
        /// Messages that were read back after the restart.
        checked: Option<usize> => "read back", 0;
        /// Messages that were missing among them.
        missing: Option<usize> => "missing", 0;
    }
}
