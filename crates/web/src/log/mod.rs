//! The access log.
//!
//! A connection records its requests (`records.rs`) and submits the records once the responses were sent. The
//! log stage's cohort operation formats the lines of a whole cohort into its processor's buffer (`lines.rs`),
//! and a thread that may block appends the buffer to the file with one write (`sink.rs`). No processor waits
//! for the log: if the file is too slow, lines are dropped and counted.

mod lines;
mod records;
mod reopen;
mod sink;

use std::net::IpAddr;
use std::time::Duration;

use phalanx::blocking::blocking;
use phalanx::time::now;
use phalanx::{Graph, SharedStage};
use phalanx_http::{LogFormat, Request};

use crate::log::lines::{Lines, LogStage};
use crate::log::records::LogRecords;
pub(crate) use crate::log::reopen::Reopening;
pub(crate) use crate::log::sink::Sink;

/// Largest cohort of answered requests; records are small.
const COHORT: usize = 256;

/// Handle to the log stage.
#[derive(Clone, Copy)]
pub(crate) struct Log(LogStage);

impl Log {
    /// Declares the log stages. Operations of `flush` buffer lines until they are written.
    pub(crate) fn declare(
        graph: &mut Graph,
        format: LogFormat,
        sink: Sink,
        flush: SharedStage<()>,
    ) -> Self {
        // One thread, so that buffers are appended whole and in order.
        let file = blocking(graph, "log file").threads(1).state(sink);
        let make = move |_| Lines::new(format, file, flush);
        Self(graph.stage("log").max_cohort(COHORT).cohort(make, lines::handle))
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

    /// A recorder for another request of the same client whose response is sent separately.
    pub(crate) fn for_stream(&self) -> Self {
        Self::new(self.log, self.address)
    }

    /// Records a request before it is answered. Its first byte arrived at `began`. A trusted proxy has `named` its
    /// client.
    pub(crate) fn request(
        &mut self,
        request: &Request<'_>,
        named: Option<IpAddr>,
        began: Duration,
    ) {
        let host = request.host.unwrap_or_default().as_bytes();
        let [referer, agent] = [request.referer, request.user_agent].map(Option::unwrap_or_default);
        let (address, line) = (named.unwrap_or(self.address), request.line().map(str::as_bytes));
        self.records().push(address, began, &line, [host, referer, agent]);
        self.is_open = true;
    }

    /// Records invalid input before it is answered, by its first line. Has no effect while the response to a
    /// recorded request is not finished.
    pub(crate) fn rejected(&mut self, line: &[&[u8]], began: Duration) {
        if !self.is_open {
            let address = self.address;
            self.records().push(address, began, line, [b"", b"", b""]);
            self.is_open = true;
        }
    }

    /// Records the authenticated user of the last request.
    pub(crate) fn user(&mut self, name: &[u8]) {
        self.records().user(name);
    }

    /// Records the response to the last request: its status and the bytes of its content.
    pub(crate) fn finish(&mut self, status: u16, bytes: u64) {
        self.records().finish(status, bytes);
        self.is_open = false;
    }

    /// Takes the records, to be submitted once the responses were sent.
    pub(crate) fn take(&mut self) -> Option<Flush> {
        self.records.take().map(|records| Flush { log: self.log, records })
    }

    fn records(&mut self) -> &mut LogRecords {
        self.records.get_or_insert_with(LogRecords::pooled)
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
        records.left = now();
        // If the operation limit is reached, losing log lines is the smaller problem.
        let _ = log.0.dispatch(records);
    }
}
