//! Metrics of the reverse proxy.

use std::sync::Arc;

use phalanx::metrics::Counter;

/// Why a request got no response of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// All servers are busy, and so is the queue: 503.
    Busy,
    /// No connection: 502.
    Connect,
    /// No connection in time: 504.
    ConnectTimeout,
    /// The server closed the connection before the head of the response: 502.
    Closed,
    /// No head of the response in time: 504.
    ResponseTimeout,
    /// The head is not one of HTTP/1, or is too large: 502.
    Malformed,
    /// The body of the response ended early. The client's connection closes, since the head has been sent.
    Truncated,
}

impl Failure {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Busy, "busy"),
        (Self::Connect, "connect"),
        (Self::ConnectTimeout, "connect-timeout"),
        (Self::Closed, "closed"),
        (Self::ResponseTimeout, "response-timeout"),
        (Self::Malformed, "malformed"),
        (Self::Truncated, "truncated"),
    ];
}

/// The counters. Clones share them.
#[derive(Clone)]
pub(crate) struct UpstreamCounters(Arc<Inner>);

struct Inner {
    requests: Counter,
    connections: Counter,
    retries: Counter,
    ejections: Counter,
    /// In the order of [`Failure::ALL`].
    failures: [Counter; 7],
}

impl UpstreamCounters {
    pub(crate) fn new() -> Self {
        let counter = |name, help| Counter::new(name, help).per_thread();
        Self(Arc::new(Inner {
            requests: counter("http_upstream_requests", "Requests passed to other servers."),
            connections: counter(
                "http_upstream_connections",
                "Connections opened to other servers.",
            ),
            retries: counter(
                "http_upstream_retries",
                "Requests sent again, because an unused connection was closed by the server.",
            ),
            ejections: counter(
                "http_upstream_ejections",
                "Times that a server got no requests for a while, because it had failed.",
            ),
            failures: Failure::ALL.map(|(_, reason)| {
                let help = "Requests without a complete response of another server, by reason.";
                Counter::with_label("http_upstream_failures", help, ("reason", reason))
            }),
        }))
    }

    pub(crate) fn request(&self) {
        self.0.requests.add(1);
    }

    pub(crate) fn connection(&self) {
        self.0.connections.add(1);
    }

    pub(crate) fn retry(&self) {
        self.0.retries.add(1);
    }

    pub(crate) fn ejection(&self) {
        self.0.ejections.add(1);
    }

    pub(crate) fn failure(&self, failure: Failure) {
        self.0.failures[failure as usize].add(1);
    }

    /// All counters.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        let Inner { requests, connections, retries, ejections, failures } = &*self.0;
        [requests, connections, retries, ejections].into_iter().chain(failures)
    }
}
