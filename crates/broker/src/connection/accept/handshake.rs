//! The TLS handshake and the WebSocket upgrade, at addresses that require them.

use std::rc::Rc;

use phalanx::net::{IoTimeout, Stream};
use phalanx_mqtt::Reason;
use phalanx_tls::Wire;

use crate::connection::logging;
use crate::connection::reader::serve;
use crate::context::Context;
use crate::limits::peer::Peer;
use crate::listen::Listen;
use crate::transport::Transport;
use crate::transport::websocket::upgrade;

/// Serves a client of an address with TLS or WebSocket.
pub(super) async fn serve_encapsulated(
    stream: Stream,
    listen: Listen,
    context: Rc<Context>,
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
    let left = || peer.time_left(context.config.limits.connect);
    let wire = match listen.is_tls() {
        // A client without TLS gets no response, because its protocol is unknown.
        true => {
            let timeout = IoTimeout::after(left()).until_shutdown();
            let (stages, profile) = context.tls()?;
            match stages.handshake_as(profile, stream, timeout).await {
                Ok(stream) => Wire::Tls(stream),
                Err(error) => {
                    let why = format!("the TLS handshake failed: {error}");
                    let why = (Reason::UNSPECIFIED_ERROR, why.as_str());
                    logging::refused(context, &peer.origin, (None, None), why);
                    return None;
                }
            }
        }
        false => Wire::Plain(stream),
    };
    if !listen.scheme.is_websocket() {
        return Some(Transport::Wire(wire));
    }
    match upgrade(wire, &context.config.security.allowed_origins, left()).await {
        Ok(socket) => Some(Transport::WebSocket(Box::new(socket))),
        Err((why, wire)) => {
            let why = format!("the WebSocket upgrade failed: {why}");
            let why = (Reason::UNSPECIFIED_ERROR, why.as_str());
            logging::refused(context, &peer.origin, (None, None), why);
            if let Some(wire) = wire {
                Transport::Wire(wire).linger().await;
            }
            None
        }
    }
}
