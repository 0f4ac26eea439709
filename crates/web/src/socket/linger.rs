//! Lingering close: reading on after the last response of a connection.
//!
//! If a socket is closed before the client has sent everything, the kernel resets the connection, and the client may lose
//! the response (RFC 9112 §9.6). So the server shuts down its side of the connection, and reads and discards input.

use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;

/// The bounds of the input that is discarded.
#[derive(Clone, Copy)]
pub(crate) struct Linger {
    /// The longest time between two reads.
    pub(crate) pause: Duration,
    pub(crate) total: Duration,
    pub(crate) bytes: usize,
}

impl Linger {
    /// The bounds for connections whose request was answered. The times are the defaults of nginx (`lingering_timeout`,
    /// `lingering_time`).
    pub(crate) const ANSWERED: Self = Self {
        pause: Duration::from_secs(5),
        total: Duration::from_secs(30),
        bytes: 64 * 1024 * 1024,
    };

    /// The bounds for clients that were too slow or may be part of a flood.
    pub(crate) const BRIEF: Self =
        Self { pause: Duration::from_secs(1), total: Duration::from_secs(1), bytes: 256 * 1024 };

    /// Calls `read` with a time limit until it returns no bytes, because the input has ended, or until a bound is reached.
    /// Returns immediately if the program drains.
    pub(crate) async fn read(self, mut read: impl AsyncFnMut(IoTimeout) -> usize) {
        let (end, mut bytes) = (now() + self.total, 0);
        while now() < end && bytes < self.bytes {
            let limit = IoTimeout::after(self.pause.min(end - now())).until_shutdown();
            match read(limit).await {
                0 => return,
                more => bytes += more,
            }
        }
    }
}
