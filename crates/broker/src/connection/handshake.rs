//! From a socket to a connection in which MQTT is spoken: by way of TLS and of a WebSocket, where an address has them.

use phalanx::net::{IoTimeout, Stream};

use crate::connection::peer::Peer;
use crate::connection::serve;
use crate::connection::transport::Transport;
use crate::connection::websocket::upgrade;
use crate::listen::Listen;
use crate::serve::Context;

/// Serves a client that has come to an address which is more than a socket.
pub(super) async fn serve_encapsulated(
    stream: Stream,
    listen: Listen,
    context: Context,
    peer: Peer,
) {
    // Boxed, as what a connection begins with is not to be held for all its life.
    if let Some(transport) = Box::pin(handshake(stream, listen, &context, &peer)).await {
        // And so that the two together fit a slot.
        Box::pin(serve(transport, context, peer)).await;
    }
}

async fn handshake(
    stream: Stream,
    listen: Listen,
    context: &Context,
    peer: &Peer,
) -> Option<Transport> {
    // One limit for all that comes before a client is let in.
    let left = || peer.left(context.config.limits.connect);
    let mut transport = Transport::Plain(stream);
    if listen.tls
        && let Transport::Plain(stream) = transport
    {
        // Who comes without TLS cannot be told, as what it speaks is not known.
        let shaken = context.tls?.shake(stream, IoTimeout::after(left()).until_shutdown()).await;
        transport = Transport::Tls(shaken.ok()?);
    }
    if listen.websocket {
        let socket = upgrade(transport, &context.config.security.allowed_origins, left()).await?;
        transport = Transport::WebSocket(Box::new(socket));
    }
    Some(transport)
}
