//! Accepts connections.

mod handshake;

use std::rc::Rc;
use std::sync::Arc;

use arc_swap::Cache;
use phalanx::net::Listener;
use phalanx::time::now;
use phalanx_mqtt::Reason;
use phalanx_service::ListenerControl;
use phalanx_tls::Wire;

use crate::connection::accept::handshake::serve_encapsulated;
use crate::connection::client::moving::Moving;
use crate::connection::reader::{serve, serve_accepted};
use crate::context::Context;
use crate::events::Origin;
use crate::events::drops::{DropReason, Dropped};
use crate::limits::peer::Peer;
use crate::limits::settings::SharedSettings;
use crate::listen::{Bound, Scheme};
use crate::transport::Transport;

/// Maximum number of rejected connections that wait for their CONNACK; further ones are closed without it.
const MAX_REJECTIONS: usize = 256;

/// Accepts connections until the listener closes. Each becomes an operation of the control stage. Connections beyond a
/// limit are rejected or closed. A connection keeps the settings that were in force when it was accepted.
pub(crate) async fn accept(
    socket: Listener,
    mut listening: ListenerControl<Bound>,
    context: Context,
    settings: SharedSettings,
) {
    let mut settings = Cache::new(settings);
    // Shared by all connections.
    let mut context = Rc::new(context);
    let control = context.stages.control;
    let mut kind = listening.kind();
    let mut listener = Arc::new(context.counters.listeners.of(kind.listen));
    let mut own_limit = None;
    loop {
        // Do not accept while the control stage's queue is full.
        control.wait_for_capacity().await;
        let Some(stream) = listening.next(&socket).await else { return };
        let bound = listening.kind();
        let listen = bound.listen;
        if kind != bound {
            kind = bound;
            listener = Arc::new(context.counters.listeners.of(listen));
        }
        let current = settings.load();
        let found = current.listener(bound.configured);
        // A reload has removed the address, but the listener is not closed yet. Keep the address's last settings.
        let is_leaving =
            found.is_none() && context.listener.is_some() && !current.has(bound.configured);
        let config = found.map_or(&current.config, |listener| &listener.config);
        if !is_leaving && !Arc::ptr_eq(config, &context.config) {
            let own = Rc::make_mut(&mut context);
            (own.config, own.guard) = (config.clone(), current.guard.clone());
            own.listener = found.map(|listener| listener.address);
            own_limit = found.map(|listener| (listener.open.clone(), listener.most));
        }
        let stream = match Moving::arrived(stream) {
            Ok((moving, wire)) => {
                let (own, origin) = (context.clone(), moving.origin());
                if control.dispatch(move |_| serve_accepted(moving.arrive(wire, own))).is_err() {
                    dropped(&context, DropReason::ConnectionBusy, origin);
                }
                continue;
            }
            Err(new) => new,
        };
        let most = current.config.limits.connections;
        // `None` beyond the limit of the address.
        let of_listener = match &own_limit {
            Some((open, most)) => open.try_acquire(*most).map(Some),
            None => Some(None),
        };
        let permit = of_listener.is_some().then(|| context.connection_limit.try_acquire(most));
        let mut peer = match permit.flatten() {
            Some(permit) => context.guard.peer(&stream, &listener, permit),
            None => match context.rejections.try_acquire(MAX_REJECTIONS) {
                Some(permit) => Peer::new_rejected(&stream, &listener, permit),
                None => {
                    let address = stream.peer_addr().ok();
                    let origin = Origin { address, listen: listener.listen };
                    dropped(&context, DropReason::ConnectionLimit, origin);
                    continue;
                }
            },
        };
        peer.set_listener_permit(of_listener.flatten());
        // Checked before TLS and authentication, which are expensive.
        if context.bans.is_banned((None, None), peer.ip(), now()) {
            peer.refused = Some(Reason::BANNED);
        }
        if listen.is_tls() && peer.refused.is_some() {
            // A CONNACK would cost a TLS handshake.
            dropped(&context, DropReason::ConnectionRejected, peer.origin);
            continue;
        }
        let (own, origin) = (context.clone(), peer.origin);
        let taken = match listen.scheme {
            Scheme::Mqtt => {
                control.dispatch(move |_| serve(Transport::Wire(Wire::Plain(stream)), own, peer))
            }
            _ => control.dispatch(move |_| serve_encapsulated(stream, listen, own, peer)),
        };
        if taken.is_err() {
            // The limit of operations is reached. Close this connection; a later one may be accepted.
            dropped(&context, DropReason::ConnectionBusy, origin);
        }
    }
}

/// Counts a connection closed without a response.
fn dropped(context: &Context, reason: DropReason, origin: Origin) {
    let what = || Dropped { origin: Some(origin), ..Dropped::default() };
    context.counters.drops.add(reason, 1, what);
}
