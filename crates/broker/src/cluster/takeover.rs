//! Takeover: a client that connects here is disconnected elsewhere.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::select;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx_mqtt::Reason;

use crate::cluster::node::Node;
use crate::peers::Claim;

/// Claims in one message, and bytes of their client identifiers: with all characters escaped, and with the rest of the
/// claims, they are less than 1 MiB, the default limit of NATS.
const MAX_AT_ONCE: usize = 1000;
const MAX_BYTES: usize = 64 * 1024;

/// Tells the other nodes which clients connected here, until shutdown.
pub(super) async fn claim(node: Rc<Node>) {
    let mut drained = pin!(draining());
    let subject = node.subject("claims");
    loop {
        let changed = node.peers.claims.changed();
        loop {
            let all = node.peers.claims.take(MAX_AT_ONCE, MAX_BYTES);
            if all.is_empty() {
                break;
            }
            let claim = |(client, at): (Arc<str>, _)| Claim {
                at,
                node: node.name.to_string(),
                client: client.to_string(),
            };
            let all: Vec<_> = all.into_iter().map(claim).collect();
            let payload = serde_json::to_vec(&all).unwrap_or_default();
            // Without NATS nobody can be told; the client counts the message.
            let _ = node.client.publish(&subject, None, None, &payload);
        }
        if let Either::Right(()) = select(changed, drained.as_mut()).await {
            return;
        }
    }
}

/// Clients connected to another node: their sessions here end.
pub(super) fn claimed(node: &Rc<Node>, payload: &[u8]) {
    let Ok(claims) = serde_json::from_slice::<Vec<Claim>>(payload) else { return };
    let stages = node.context.stages;
    for claim in claims {
        if claim.node == *node.name || !node.peers.claims.yields_to(&claim, &node.name) {
            continue;
        }
        let client = claim.client;
        let reason = Reason::SESSION_TAKEN_OVER;
        // If the broker is full, the client stays here until it connects again.
        let _ = stages.sessions.end_session(client, reason, stages.routing).detach();
    }
}
