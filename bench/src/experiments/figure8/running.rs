//! A running server, whatever its arm.

use std::net::SocketAddr;

/// A running server.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    /// Stops it, after its clients have disconnected.
    pub(super) end: Box<dyn FnOnce()>,
}
