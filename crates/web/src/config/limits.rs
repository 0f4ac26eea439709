//! How long to wait, how much one address may do, and what is written down of it.

use std::path::PathBuf;
use std::time::Duration;

pub use phalanx_http::LogFormat;

/// How long to wait for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole of a request's head, from its first byte; then it is answered with 408.
    pub request: Duration,
    /// For the whole of a TLS handshake, from the connection on.
    pub handshake: Duration,
    /// For the whole of a request's body.
    pub body: Duration,
    /// For the next request on an idle connection.
    pub idle: Duration,
    /// For the client to take each 128 KiB of an answer; less is a piece of its own. Of a file that the
    /// kernel sends, four such pieces leave at once and have the time of four.
    pub send: Duration,
    /// Bytes a second that a client must take of a large answer; none lets it take its time.
    pub min_send_rate: Option<u64>,
    /// A file in the cache is looked at again when it was not for so long.
    pub revalidate: Duration,
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

/// What one client's address may do; an IPv6 client is known by its network of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerAddress {
    /// Connections at once; none for any number.
    pub connections: Option<u32>,
    /// Requests a second, in the long run; none for any number.
    pub requests_per_second: Option<f64>,
    /// Requests at once beyond that.
    pub burst: u32,
}

/// Where each request is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessLog {
    /// How.
    pub format: LogFormat,
    /// Where.
    pub target: LogTarget,
}

/// Where the access log is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    #[default]
    Stdout,
    /// A file that is appended to.
    File(PathBuf),
}
