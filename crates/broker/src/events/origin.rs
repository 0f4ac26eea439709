//! The origin of a connection.

use std::net::SocketAddr;

use crate::events::Line;
use crate::listen::Listen;

/// The client's address and the address it connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None` if the client had disconnected before it was accepted.
    pub(crate) address: Option<SocketAddr>,
    /// Interned, because each connection and each session has an origin.
    pub(crate) listen: &'static Listen,
}

impl Origin {
    /// Adds the addresses to a line. Nothing that the client sent may precede them: see `docs/broker/events.md`.
    pub(crate) fn write(&self, line: &mut Line) {
        if let Some(address) = self.address {
            // The canonical form of an IPv4 address, even if the socket is an IPv6 one.
            line.plain("address", address.ip().to_canonical());
            line.number("port", address.port().into());
        }
        line.plain("listener", self.listen);
    }
}
