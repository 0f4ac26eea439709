//! Timeouts, limits per client address, and the access log.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_config::settings;
pub use phalanx_http::LogFormat;

use crate::config::values::LogFormats;

/// Timeouts of a connection and of the file cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to receive a request head, from its first byte; then the response is 408.
    pub request: Duration,
    /// Time to complete the TLS handshake.
    pub handshake: Duration,
    /// Time to receive a request body.
    pub body: Duration,
    /// Time that a connection may be idle between requests.
    pub idle: Duration,
    /// Time to send each 128 KiB of a response. The kernel sends large files in parts of up to 512 KiB, which have four
    /// times the limit.
    pub send: Duration,
    /// Minimum rate at which a client must receive a large response, in bytes per second; `None` for no
    /// minimum.
    pub min_send_rate: Option<u64>,
    /// Age at which a cached file is checked for changes.
    pub revalidate: Duration,
}

/// Additional time after which QUIC drops the connection of a silent client, so that HTTP/3 can close idle ones first.
const QUIC_IDLE_GRACE: Duration = Duration::from_secs(5);

impl Timeouts {
    /// Time without a datagram after which QUIC drops a connection. HTTP/3 closes idle connections earlier.
    pub(crate) fn quic_idle(&self) -> Duration {
        self.idle.max(self.request) + QUIC_IDLE_GRACE
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            body: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            send: Duration::from_secs(30),
            min_send_rate: None,
            revalidate: Duration::from_secs(1),
        }
    }
}

settings! {
    /// Limits per client address. IPv6 clients are identified by their /64 network.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PerAddress {
        /// Concurrent connections; `None` for no limit.
        pub connections: Option<u32>
            => range("max-connections-per-address", Some(1)..,
                "maximum number of concurrent connections of one address; further ones are closed, those without TLS \
                 after a 429");
        /// Sustained requests per second; `None` for no limit.
        pub requests_per_second: Option<f64>
            => range("max-request-rate", Some(0.001)..,
                "maximum average rate of requests per second of one address; further requests get 429");
        /// Requests allowed in a burst above the sustained rate.
        pub burst: u32
            => key("request-burst", "additional requests of one address allowed in a burst");
    }
}

settings! {
    /// The access log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AccessLog {
        /// Line format.
        pub format: LogFormat
            => key_as::<LogFormats>("format",
                "format of the lines: common, combined, json, or a text with fields such as \"$address $status\"");
        /// Destination.
        pub target: LogTarget => key("target", "stdout, or a file; a path must contain a slash");
    }
}

/// Destination of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    #[default]
    Stdout,
    /// A file, to which lines are appended.
    File(PathBuf),
}

/// How large files are sent over connections without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendMode {
    /// Files are sent without copying, unless they have just changed. A client that is still receiving a file when it
    /// is truncated or overwritten in place may receive zeros or newer contents.
    #[default]
    ZeroCopy,
    /// The kernel copies the data when it is sent.
    Copy,
}
