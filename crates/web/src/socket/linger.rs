//! Reading on after the last response of a connection.
//!
//! If a socket is closed before the client has sent everything, the kernel resets the connection, and the client may lose
//! the response (RFC 9112 §9.6). So the server shuts down its side of the connection, and reads and discards input.

use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;

/// The bounds of the time in which input is discarded.
#[derive(Clone, Copy)]
pub(crate) struct Linger {
    /// The longest time between two reads.
    pub(crate) pause: Duration,
    pub(crate) total: Duration,
}

impl Linger {
    /// The bounds for connections whose request was answered: the defaults of nginx (`lingering_timeout`,
    /// `lingering_time`).
    pub(crate) const ANSWERED: Self =
        Self { pause: Duration::from_secs(5), total: Duration::from_secs(30) };

    /// Calls `read` with a time limit until it returns false, which means the end of the input, or the time has passed.
    /// Returns at once if the program drains.
    pub(crate) async fn read(self, mut read: impl AsyncFnMut(IoTimeout) -> bool) {
        let end = now() + self.total;
        let limit = || IoTimeout::after(self.pause.min(end.saturating_sub(now()))).until_shutdown();
        while now() < end && read(limit()).await {}
    }
}
