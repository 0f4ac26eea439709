//! Taking connections in.

use phalanx::net::Listener;

use crate::connection::door::enter;
use crate::connection::guest::Guest;
use crate::connection::serve;
use crate::connection::transport::Transport;
use crate::drops::DropReason;
use crate::listen::Listen;
use crate::serve::Context;
use crate::terms::Live;

/// So many connections for which there is no place are told so at once; others are closed.
const TOLD: usize = 256;

/// Accepts until the program drains. Each connection becomes an operation of the control stage; those for which
/// there is no place are told so, or closed. Each goes by the terms of the moment at which it has come.
pub(crate) async fn accept(listener: Listener, listen: Listen, mut context: Context, live: Live) {
    let mut terms = live.current();
    let control = context.stages.control;
    loop {
        // Rather than let a queue grow that is long already.
        control.room().await;
        let Some(stream) = listener.accept_next().await else { return };
        if terms.is_old(&live) {
            let terms = terms.refresh(&live);
            (context.config, context.guard) = (terms.config.clone(), terms.guard.clone());
        }
        let most = context.config.limits.connections;
        let guest = match context.places.take(most) {
            Some(place) => context.guard.guest(&stream, place),
            None => match context.turned_away.take(TOLD) {
                Some(place) => Guest::turned_away(place),
                None => {
                    dropped(&context, DropReason::ConnectionLimit, listen);
                    continue;
                }
            },
        };
        if listen.tls && guest.refused.is_some() {
            // To say so would cost a handshake.
            dropped(&context, DropReason::ConnectionRefused, listen);
            continue;
        }
        let own = context.clone();
        let taken = match listen.tls || listen.websocket {
            false => control.dispatch(move |_| serve(Transport::Plain(stream), own, guest)),
            true => control.dispatch(move |_| enter(stream, listen, own, guest)),
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
