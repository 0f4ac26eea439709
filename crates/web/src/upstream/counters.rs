//! Metrics of the reverse proxy.

use phalanx::metrics::{Counter, CounterBlock, Family, Gauge};
use phalanx::runtime::report;

use crate::config::Upstream;
use crate::upstream::up::{CheckGauge, UpGauges};

/// Why a request got no complete response from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// All servers are busy, and so is the queue: 503.
    Busy,
    /// No connection: 502.
    Connect,
    /// This process or machine has no operation, descriptor, port or memory left: 503, or a refused stream.
    Exhausted,
    /// No connection in time: 504.
    ConnectTimeout,
    /// The server closed the connection before the head of the response: 502.
    Closed,
    /// No head of the response in time: 504.
    ResponseTimeout,
    /// The head is not valid HTTP/1, or too large: 502.
    Malformed,
    /// The body of the response ended early. The client's connection closes, since the head has been sent.
    Truncated,
    /// The server has paused for too long in the body of its response. It may just have nothing to send, so this does
    /// not count as a failure of the server.
    IdleTimeout,
    /// The client has disconnected, has reset its stream, or reads its response too slowly.
    ClientClosed,
}

impl Failure {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Busy, "busy"),
        (Self::Connect, "connect"),
        (Self::Exhausted, "exhausted"),
        (Self::ConnectTimeout, "connect-timeout"),
        (Self::Closed, "closed"),
        (Self::ResponseTimeout, "response-timeout"),
        (Self::Malformed, "malformed"),
        (Self::Truncated, "truncated"),
        (Self::IdleTimeout, "idle-timeout"),
        (Self::ClientClosed, "client-closed"),
    ];

    /// The reason in metrics.
    pub(crate) fn text(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The counters. Clones share them.
#[derive(Clone)]
pub(crate) struct UpstreamCounters {
    counters: CounterBlock,
    up: UpGauges,
}

/// Numbers of the counters. The failures follow, in the order of [`Failure::ALL`].
const REQUESTS: usize = 0;
const CONNECTIONS: usize = 1;
const RETRIES: usize = 2;
const EJECTIONS: usize = 3;
const FAILURES: usize = 4;

impl UpstreamCounters {
    pub(crate) fn new() -> Self {
        let first = [
            Counter::new("http_upstream_requests", "Requests forwarded to other servers."),
            Counter::new("http_upstream_connections", "Connections opened to other servers."),
            Counter::new(
                "http_upstream_retries",
                "Requests sent again, because the server has closed an unused connection, or has not processed them.",
            ),
            Counter::new(
                "http_upstream_ejections",
                "Times that a server got no requests for a while, because it had failed.",
            ),
        ];
        let failures = Failure::ALL.map(|(_, reason)| {
            let help = "Requests without a complete response of another server, by reason.";
            Counter::with_label("http_upstream_failures", help, ("reason", reason))
        });
        Self { counters: CounterBlock::new(first.into_iter().chain(failures)), up: UpGauges::new() }
    }

    /// The gauge of the checks of a server for one rule.
    pub(super) fn check(&self, server: &Upstream) -> CheckGauge {
        self.up.check(server)
    }

    pub(crate) fn request(&self) {
        self.counters.add(REQUESTS, 1);
    }

    pub(crate) fn connection(&self) {
        self.counters.add(CONNECTIONS, 1);
    }

    pub(crate) fn retry(&self) {
        self.counters.add(RETRIES, 1);
    }

    pub(crate) fn ejection(&self) {
        self.counters.add(EJECTIONS, 1);
    }

    /// Counts and reports a failure that ejects `server`, if `is_ejected`.
    pub(super) fn failed(&self, server: &Upstream, is_ejected: bool, reason: &str) {
        if is_ejected {
            self.ejection();
            report(format_args!(
                "{server} has failed repeatedly and gets no requests for a while: {reason}"
            ));
        }
    }

    pub(crate) fn failure(&self, failure: Failure) {
        self.counters.add(FAILURES + failure as usize, 1);
    }

    /// All counters.
    pub(crate) fn all(&self) -> &[Counter] {
        self.counters.counters()
    }

    /// The gauges of all checked servers.
    pub(crate) fn gauges(&self) -> &Family<Gauge> {
        &self.up.family
    }
}
