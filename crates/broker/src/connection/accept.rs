//! Taking connections in.

use std::sync::Arc;

use arc_swap::Cache;
use phalanx::net::Listener;

use crate::connection::handshake::serve_encapsulated;
use crate::connection::peer::Peer;
use crate::connection::serve;
use crate::connection::transport::Transport;
use crate::drops::DropReason;
use crate::listen::Listen;
use crate::serve::Context;
use crate::settings::SharedSettings;

/// So many connections for which there is no place are told so at once; others are closed.
const MAX_REJECTIONS: usize = 256;

/// Accepts until the program drains. Each connection becomes an operation of the control stage; those for which
/// there is no place are told so, or closed. Each goes by the terms of the moment at which it has come.
pub(crate) async fn accept(
    listener: Listener,
    listen: Listen,
    mut context: Context,
    settings: SharedSettings,
) {
    let mut settings = Cache::new(settings);
    let control = context.stages.control;
    loop {
        // Rather than let a queue grow that is long already.
        control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        let current = settings.load();
        if !Arc::ptr_eq(&current.config, &context.config) {
            (context.config, context.guard) = (current.config.clone(), current.guard.clone());
        }
        let most = context.config.limits.connections;
        let peer = match context.connection_limit.try_acquire(most) {
            Some(permit) => context.guard.peer(&stream, permit),
            None => match context.rejections.try_acquire(MAX_REJECTIONS) {
                Some(permit) => Peer::rejected(permit),
                None => {
                    dropped(&context, DropReason::ConnectionLimit, listen);
                    continue;
                }
            },
        };
        if listen.tls && peer.refused.is_some() {
            // To say so would cost a handshake.
            dropped(&context, DropReason::ConnectionRefused, listen);
            continue;
        }
        let own = context.clone();
        let taken = match listen.tls || listen.websocket {
            false => control.dispatch(move |_| serve(Transport::Plain(stream), own, peer)),
            true => control.dispatch(move |_| serve_encapsulated(stream, listen, own, peer)),
        };
        if taken.is_err() {
            // At a bound of operations: the connection is closed, and the next may fit again.
            dropped(&context, DropReason::ConnectionBusy, listen);
        }
    }
}

/// A connection is closed without an answer.
fn dropped(context: &Context, reason: DropReason, listen: Listen) {
    context.counters.drops.add(reason, 1, || format!("at {listen}"));
}
