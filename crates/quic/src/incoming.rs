//! A new connection, before it is accepted.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use quinn_proto::Transmit;

use crate::connection::Connection;
use crate::core::Core;

/// Handshakes in progress on one processor above which clients must prove their address first.
pub const RETRY_HANDSHAKES: usize = 64;

/// Handshakes in progress on one processor above which datagrams that begin new ones are dropped. Clients repeat them.
pub const MAX_HANDSHAKES: usize = 1024;

/// A client that wants a new connection. Unless it is [accepted](Self::accept), it is refused.
pub struct Incoming<'a> {
    core: &'a Rc<Core>,
    incoming: Option<quinn_proto::Incoming>,
    response: &'a mut Vec<u8>,
    transmit: &'a mut Option<Transmit>,
}

impl Incoming<'_> {
    /// Handles the first datagram of a connection. Returns the datagram to send in response, whose bytes are in
    /// `response`.
    pub(crate) fn handle(
        core: &Rc<Core>,
        incoming: quinn_proto::Incoming,
        accept: Option<&impl Fn(Incoming<'_>)>,
        response: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let handshakes = core.handshakes.get();
        if handshakes >= MAX_HANDSHAKES {
            core.metrics.dropped_handshakes.add(1);
            core.quic().ignore(incoming);
            return None;
        }
        let mut transmit = None;
        {
            let incoming = Some(incoming);
            let incoming = Incoming { core, incoming, response, transmit: &mut transmit };
            if handshakes >= RETRY_HANDSHAKES && !incoming.is_validated() {
                incoming.retry();
            } else if let Some(accept) = accept {
                accept(incoming);
            }
        }
        transmit
    }

    /// The client's address. It may be forged unless it [is validated](Self::is_validated).
    pub fn remote_address(&self) -> SocketAddr {
        self.incoming.as_ref().expect("until it is accepted").remote_address()
    }

    /// Whether the client has proven its address by the token of a [retry](Self::retry).
    pub fn is_validated(&self) -> bool {
        self.incoming.as_ref().is_some_and(quinn_proto::Incoming::remote_address_validated)
    }

    /// Asks a client that is not [validated](Self::is_validated) to repeat its first message with a token, which proves
    /// its address. The server stores nothing for it.
    pub fn retry(mut self) {
        let Some(incoming) = self.incoming.take_if(|incoming| incoming.may_retry()) else { return };
        self.core.metrics.retries.add(1);
        *self.transmit = self.core.quic().retry(incoming, self.response).ok();
    }

    /// Begins the handshake of a connection that is dropped after the time `idle` without a datagram. Returns `None` if
    /// the client's first message is invalid.
    pub fn accept(mut self, idle: Duration) -> Option<Connection> {
        let incoming = self.incoming.take()?;
        let (core, remote) = (self.core, incoming.remote_address());
        let server = Some(core.server(idle));
        let accepted = core.quic().accept(incoming, core.now(), self.response, server);
        match accepted {
            Ok((handle, quic)) => Some(Connection::new(core.add(handle, (remote, idle), quic))),
            Err(error) => {
                core.metrics.handshakes_failed.add(1);
                *self.transmit = error.response;
                None
            }
        }
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            self.core.metrics.refused.add(1);
            *self.transmit = Some(self.core.quic().refuse(incoming, self.response));
        }
    }
}
