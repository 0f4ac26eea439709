//! TCP keepalive.

use std::time::Duration;

/// The parameters of TCP keepalive; see `tcp(7)`.
///
/// ```
/// use phalanx_driver::Keepalive;
/// use std::time::Duration;
///
/// // A lost peer is detected after 60 + 3 × 10 seconds.
/// let keepalive = Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), count: 3 };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle time before the first probe. Whole seconds, at least one.
    pub idle: Duration,
    /// Time between two probes. Whole seconds, at least one.
    pub interval: Duration,
    /// The number of unanswered probes after which the connection fails with `TimedOut`, from 1 to 127.
    pub count: u32,
}

impl Keepalive {
    pub(crate) fn to_kernel(self) -> socket2::TcpKeepalive {
        let Self { idle, interval, count } = self;
        socket2::TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(count)
    }
}
