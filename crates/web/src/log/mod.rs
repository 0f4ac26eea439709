//! The access log: who asked for what, and what came of it.
//!
//! A connection notes its requests (`records.rs`) and hands the notes over when their answers have left.
//! The log stage's cohort operation writes the lines of a whole cohort into its processor's buffer
//! (`lines.rs`), and a thread that may block appends the buffer to the file (`sink.rs`): one write for
//! all that was answered meanwhile. No processor ever waits for the log. When the file cannot follow,
//! lines are dropped, and it is said how many.

mod lines;
mod records;
mod reopen;
mod sink;

use std::net::IpAddr;

use phalanx::blocking::blocking;
use phalanx::time::now;
use phalanx::{Graph, SharedStage};
use phalanx_http::{LogFormat, Request};

use crate::log::lines::{Lines, LogStage};
use crate::log::records::LogRecords;
pub(crate) use crate::log::reopen::Reopening;
pub(crate) use crate::log::sink::Sink;

/// A cohort of answered requests: their notes are small.
const COHORT: usize = 256;

/// A handle on the log's stage.
#[derive(Clone, Copy)]
pub(crate) struct Log(LogStage);

impl Log {
    /// Declares the log's stages. What gathers lines until they are written is an operation of
    /// `flush`.
    pub(crate) fn declare(
        graph: &mut Graph,
        format: LogFormat,
        sink: Sink,
        flush: SharedStage<()>,
    ) -> Self {
        // One thread: buffers are appended one after the other, each whole.
        let file = blocking(graph, "log file").threads(1).state(sink);
        let make = move |_| Lines::new(format, file, flush);
        Self(graph.stage("log").max_cohort(COHORT).cohort(make, lines::handle))
    }
}

/// What a connection notes of its requests; nothing where there is no log.
pub(crate) struct AccessRecorder {
    log: Log,
    address: IpAddr,
    records: Option<Box<LogRecords>>,
}

impl AccessRecorder {
    /// A connection's, from this address.
    pub(crate) fn new(log: Log, address: IpAddr) -> Self {
        Self { log, address, records: None }
    }

    /// Another one for the same client: for a request whose answer leaves on its own.
    pub(crate) fn for_stream(&self) -> Self {
        Self::new(self.log, self.address)
    }

    /// A request is about to be answered. It began to come at `began`.
    pub(crate) fn request(&mut self, request: &Request<'_>, began: std::time::Duration) {
        let host = request.host.unwrap_or_default().as_bytes();
        let [referer, agent] = [request.referer, request.user_agent].map(Option::unwrap_or_default);
        self.records().push(began, [request.line, host, referer, agent]);
    }

    /// What is no request is about to be answered: all that is known of it are its bytes.
    pub(crate) fn rejected(&mut self, bytes: &[u8], began: std::time::Duration) {
        let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        self.records().push(began, [line, b"", b"", b""]);
    }

    /// The name that the request has proved to come from.
    pub(crate) fn user(&mut self, name: &[u8]) {
        self.records().user(name);
    }

    /// What the last request was answered with: the status, and bytes of content.
    pub(crate) fn finish(&mut self, status: u16, bytes: u64) {
        self.records().finish(status, bytes);
    }

    /// Takes the notes out, to be handed over once the answers have left.
    pub(crate) fn take(&mut self) -> Option<Flush> {
        self.records.take().map(|records| Flush { log: self.log, records })
    }

    fn records(&mut self) -> &mut LogRecords {
        self.records.get_or_insert_with(|| LogRecords::of(self.address))
    }
}

/// LogRecords of requests whose answers are leaving.
pub(crate) struct Flush {
    log: Log,
    records: Box<LogRecords>,
}

impl Flush {
    /// The answers have left, or never will: the lines may be written, if there are any.
    pub(crate) fn submit(flush: Option<Self>) {
        let Some(Self { log, mut records }) = flush else { return };
        records.left = now();
        // Refused at the bound of operations: then there is more amiss than a log without a line.
        let _ = log.0.dispatch(records);
    }
}
