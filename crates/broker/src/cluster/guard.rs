//! Disconnects all clients when this node's lease expires, because another node may adopt their sessions from then on.

use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::{select, sleep};
use phalanx_mqtt::Reason;

use crate::context::Context;
use crate::kept::state::RENEWALS_PER_TIMEOUT;
use crate::session::partition::inspect::Kick;

/// Watches over the lease until shutdown, or until the sessions are lost.
pub(super) async fn guard(context: Context) {
    let Some(kept) = context.kept.clone() else { return };
    let mut was_open = true;
    while kept.wait_until_open().await && !is_draining() {
        let is_open = kept.is_open();
        if kept.is_behind() {
            context.wal.begin();
        }
        if was_open && !is_open {
            kept.log_once("the lease was not renewed in time: disconnecting all clients");
        }
        if !is_open {
            // Repeated, because a client that was accepted just before may complete its connection after the others were
            // disconnected.
            disconnect_all(&context, Reason::SERVER_UNAVAILABLE).await;
        }
        was_open = is_open;
        kept.metrics.owns.set(i64::from(is_open));
        let pause = kept.timeout() / RENEWALS_PER_TIMEOUT;
        let pause = match is_open {
            true => pause.min(kept.lease_time_left() + Duration::from_millis(1)),
            false => pause,
        };
        select(sleep(pause), draining()).await;
    }
    kept.metrics.owns.set(0);
    if kept.lost_reason().is_some() {
        disconnect_all(&context, Reason::USE_ANOTHER_SERVER).await;
    }
}

async fn disconnect_all(context: &Context, reason: Reason) {
    let sessions = context.stages.sessions;
    for partition in 0..sessions.partitions() {
        // If the stage is full, its clients stay connected, but no change of their sessions is acknowledged.
        let _ = sessions.kick(partition, Kick::Clients(reason)).await;
    }
}
