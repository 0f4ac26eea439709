//! Metrics for operators: requests by status, bytes, cache hits and connections.
//!
//! The names follow the conventions of Prometheus. They do not contain the name of the server, so that one dashboard
//! can show several kinds of servers.

use std::sync::Arc;

use phalanx::metrics::{Counter, CounterBlock, Gauge, Times};
use phalanx_http::Status;

/// One more than the highest status code.
const CODES: usize = 600;

/// Status logged for a request whose client has disconnected before the response began, as in nginx. It is never sent.
pub(crate) const CLIENT_CLOSED: u16 = 499;

/// Index of the counter for each status code: its index in [`Status::ALL`], followed by [`CLIENT_CLOSED`]. Other codes,
/// which only a proxy relays, count as the first code of their class: 418 as 400.
const INDEX: [u8; CODES] = {
    let (mut index, mut n, mut first, mut code) = ([0; CODES], 0, 0, 0);
    while code < CODES {
        if code % 100 == 0 {
            first = n as u8;
        }
        index[code] = first;
        if n < Status::ALL.len() && Status::ALL[n].code() as usize == code {
            index[code] = n as u8;
            n += 1;
        }
        code += 1;
    }
    index[CLIENT_CLOSED as usize] = Status::ALL.len() as u8;
    index
};

/// Why a connection is refused.
#[derive(Clone, Copy)]
pub(crate) enum Refused {
    /// The rules `allow` and `deny`.
    Address,
    /// A PROXY header that is missing, late, malformed, or from a load balancer that is not trusted.
    ProxyProtocol,
    /// The limit on connections.
    MaxConnections,
    /// The limit on connections per address.
    MaxConnectionsPerAddress,
    /// Too many connections of a processor wait for their TLS handshake.
    MaxHandshakes,
    /// The limit on operations of a processor.
    MaxOperations,
}

/// Names of [`Refused`], in order.
const REASONS: [&str; 6] = [
    "address",
    "proxy-protocol",
    "max-connections",
    "max-connections-per-address",
    "max-handshakes",
    "max-operations",
];

/// The metrics. Clones share them.
#[derive(Clone)]
pub(crate) struct HttpMetrics(Arc<Inner>);

/// Numbers of the counters in the block. A request usually touches one cache line: the statuses up to 301 follow the
/// first four.
const CONTENT: usize = 0;
const HITS: usize = 1;
const MISSES: usize = 2;
const ACCEPTED: usize = 3;
/// In the order of [`INDEX`].
const STATUSES: usize = 4;

struct Inner {
    hot: CounterBlock,
    handshakes_failed: Counter,
    /// In the order of [`Refused`].
    refused: [Counter; REASONS.len()],
    open: Gauge,
    latency: Times,
}

impl HttpMetrics {
    pub(crate) fn new() -> Self {
        let codes = Status::ALL.iter().map(|status| status.code());
        let requests = codes.chain([CLIENT_CLOSED]).map(|code| {
            let code = code.to_string();
            let help = "Answered requests, by status code.";
            Counter::with_label("http_requests", help, ("code", &code))
        });
        let lookup = |result| {
            let help = "Look-ups of a file, by whether it was in the cache.";
            Counter::with_label("http_cache_lookups", help, ("result", result))
        };
        let first = [
            Counter::new("http_response_bytes", "Bytes of content sent."),
            lookup("hit"),
            lookup("miss"),
            Counter::new("http_connections_accepted", "Accepted connections."),
        ];
        Self(Arc::new(Inner {
            hot: CounterBlock::new(first.into_iter().chain(requests)),
            handshakes_failed: Counter::new("tls_handshakes_failed", "Failed TLS handshakes."),
            refused: REASONS.map(|reason| {
                let help = "Refused connections, by reason.";
                Counter::with_label("http_connections_refused", help, ("reason", reason))
            }),
            open: Gauge::new("http_connections", "Open connections."),
            latency: Times::new(
                "http_request_duration_seconds",
                "Time from the first byte of a request to the end of the write with its response.",
            ),
        }))
    }

    /// Counts a response.
    #[inline]
    pub(crate) fn response(&self, status: u16, content: u64) {
        let index = INDEX.get(usize::from(status)).copied().unwrap_or_default();
        self.0.hot.add(STATUSES + usize::from(index), 1);
        if content > 0 {
            self.0.hot.add(CONTENT, content);
        }
    }

    /// Counts a lookup of a path.
    #[inline]
    pub(crate) fn lookup(&self, hit: bool) {
        self.0.hot.add(if hit { HITS } else { MISSES }, 1);
    }

    /// Counts a failed TLS handshake.
    pub(crate) fn handshake_failed(&self) {
        self.0.handshakes_failed.add(1);
    }

    /// Counts an accepted connection.
    pub(crate) fn accepted(&self) {
        self.0.hot.add(ACCEPTED, 1);
    }

    /// Counts a refused connection.
    pub(crate) fn refused(&self, reason: Refused) {
        self.0.refused[reason as usize].add(1);
    }

    /// All counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        let Inner { hot, handshakes_failed, refused, open: _, latency: _ } = &*self.0;
        hot.counters().iter().chain([handshakes_failed]).chain(refused)
    }

    /// Latency of requests, measured by the network stage.
    pub(crate) fn latency(&self) -> &Times {
        &self.0.latency
    }

    /// Number of open connections, maintained by the connection limit.
    pub(crate) fn open(&self) -> &Gauge {
        &self.0.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_count_by_status() {
        let metrics = HttpMetrics::new();
        for (status, bytes) in [(200, 5), (200, 0), (404, 7)] {
            metrics.response(status, bytes);
        }
        let count = |status| {
            let at = Status::ALL.iter().position(|other| *other == status).unwrap();
            metrics.0.hot.counters()[STATUSES + at].count()
        };
        assert_eq!((count(Status::Ok), count(Status::NotFound)), (2, 1));
        metrics.response(418, 0);
        metrics.response(300, 0);
        assert_eq!((count(Status::BadRequest), count(Status::MovedPermanently)), (1, 1));
        metrics.response(CLIENT_CLOSED, 0);
        assert_eq!(metrics.0.hot.counters().last().map(Counter::count), Some(1));
        assert_eq!(count(Status::BadRequest), 1, "it is none of the server's statuses");
        assert_eq!((count(Status::Continue), metrics.0.hot.counters()[CONTENT].count()), (0, 12));
    }
}
