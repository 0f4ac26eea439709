//! The TLS handshake and the WebSocket upgrade of addresses that require them.

use phalanx::net::{IoTimeout, Stream};

use crate::connection::peer::Peer;
use crate::connection::serve;
use crate::connection::transport::Transport;
use crate::connection::websocket::upgrade;
use crate::listen::Listen;
use crate::serve::Context;

/// Serves a client of an address with TLS or WebSocket.
pub(super) async fn serve_encapsulated(
    stream: Stream,
    listen: Listen,
    context: Context,
    peer: Peer,
) {
    // Boxed, so that the handshake's state is freed before the connection is served.
    if let Some(transport) = Box::pin(handshake(stream, listen, &context, &peer)).await {
        // Boxed, so that the operation fits a slot.
        Box::pin(serve(transport, context, peer)).await;
    }
}

async fn handshake(
    stream: Stream,
    listen: Listen,
    context: &Context,
    peer: &Peer,
) -> Option<Transport> {
    // One timeout covers all steps until CONNECT.
    let left = || peer.left(context.config.limits.connect);
    let mut transport = Transport::Plain(stream);
    if listen.tls
        && let Transport::Plain(stream) = transport
    {
        // A client without TLS gets no response, because its protocol is unknown.
        let shaken =
            context.tls?.handshake(stream, IoTimeout::after(left()).until_shutdown()).await;
        transport = Transport::Tls(shaken.ok()?);
    }
    if listen.websocket {
        let socket = upgrade(transport, &context.config.security.allowed_origins, left()).await?;
        transport = Transport::WebSocket(Box::new(socket));
    }
    Some(transport)
}
