//! The access logs.
//!
//! A connection records its requests (`records.rs`) and submits the records once the responses were sent. The log
//! stage's cohort operation formats the lines of a whole cohort into its processor's buffers, one for each log
//! (`lines.rs`), and a thread that may block appends each buffer to its file with one write (`sink.rs`). No processor
//! waits for a log: if a file is too slow, lines are dropped and counted. The records name the log of their
//! configuration (`outputs.rs`), so that a reload can add, change and remove logs.

mod lines;
mod outputs;
mod records;
mod sink;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::blocking;
use phalanx::stage::Handles;
use phalanx::time::now;
use phalanx::{Graph, SharedStage};
use phalanx_http::Request;

use crate::log::lines::{Lines, LogStage};
pub(crate) use crate::log::outputs::{Logs, OpenError};
use crate::log::records::LogRecords;
pub(crate) use crate::log::sink::handle_reopen_signal;

/// Largest cohort of answered requests; records are small.
const MAX_COHORT: usize = 256;

/// Handle to the log stage.
#[derive(Clone, Copy, Handles)]
pub(crate) struct Log(LogStage);

impl Log {
    /// Declares the log stages. Operations of `flush` buffer lines until they are written.
    pub(crate) fn declare(graph: &mut Graph, flush: SharedStage<()>) -> Self {
        // One thread, so that buffers are appended whole and in order.
        let file = blocking(graph, "log file").threads(1).background().state(());
        let make = move |_| Lines::new(file, flush);
        let log = graph.stage("log").max_cohort(MAX_COHORT).cohort(make, lines::handle);
        graph.calls(log, flush);
        graph.calls(flush, file);
        Self(log)
    }
}

/// Recorder of a connection's requests.
pub(crate) struct AccessRecorder {
    log: Log,
    address: IpAddr,
    records: Option<Box<LogRecords>>,
    /// Whether the last recorded request has no response yet.
    is_open: bool,
}

impl AccessRecorder {
    /// A recorder for a connection from `address`.
    pub(crate) fn new(log: Log, address: IpAddr) -> Self {
        Self { log, address, records: None, is_open: false }
    }

    /// A recorder for another stream of the same client, whose response is sent separately.
    pub(crate) fn for_stream(&self) -> Self {
        Self::new(self.log, self.address)
    }

    /// Records a request before it is answered, if its host has a log. `started` is the arrival time of its first byte,
    /// `named` the client that a trusted proxy has named.
    pub(crate) fn request(
        &mut self,
        (logs, host): (&Arc<Logs>, Option<usize>),
        request: &Request<'_>,
        named: Option<IpAddr>,
        started: Duration,
    ) {
        let Some(log) = logs.index_of(host) else {
            return;
        };
        let name = request.host.unwrap_or_default().as_bytes();
        let [referer, agent] = [request.referer, request.user_agent].map(Option::unwrap_or_default);
        let (address, line) = (named.unwrap_or(self.address), request.line().map(str::as_bytes));
        self.records(logs).push(log, address, started, &line, [name, referer, agent]);
        self.is_open = true;
    }

    /// Records invalid input before it is answered, by its first line. Has no effect while the response to a
    /// recorded request is not finished.
    pub(crate) fn record_rejected(&mut self, logs: &Arc<Logs>, line: &[&[u8]], started: Duration) {
        if !self.is_open
            && let Some(log) = logs.index_of(None)
        {
            let address = self.address;
            self.records(logs).push(log, address, started, line, [b"", b"", b""]);
            self.is_open = true;
        }
    }

    /// Records the response to the last request, if it is logged: the authenticated user, the status and the bytes of
    /// content.
    pub(crate) fn finish(&mut self, user: Option<&[u8]>, status: u16, bytes: u64) {
        if std::mem::take(&mut self.is_open)
            && let Some(records) = &mut self.records
        {
            if let Some(name) = user {
                records.set_user(name);
            }
            records.set_response(status, bytes);
        }
    }

    /// Takes the records, to be submitted once the responses were sent.
    pub(crate) fn take(&mut self) -> Option<Flush> {
        self.records.take().map(|records| Flush { log: self.log, records })
    }

    fn records(&mut self, logs: &Arc<Logs>) -> &mut LogRecords {
        if self.records.as_ref().is_some_and(|records| !records.is_of(logs)) {
            // The earlier requests belong to the configuration before a reload, and are already answered.
            Flush::submit(self.take());
        }
        self.records.get_or_insert_with(|| LogRecords::pooled(logs))
    }
}

/// Records of requests whose responses are being sent.
pub(crate) struct Flush {
    log: Log,
    records: Box<LogRecords>,
}

impl Flush {
    /// Submits the records, if any, after the responses were sent or failed.
    pub(crate) fn submit(flush: Option<Self>) {
        let Some(Self { log, mut records }) = flush else { return };
        records.sent_at = now();
        // At the operation limit, log lines are lost rather than requests.
        let _ = log.0.dispatch(records);
    }
}
