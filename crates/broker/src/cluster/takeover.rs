//! Takeover: a client that connects here is disconnected elsewhere.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_mqtt::Reason;

use crate::cluster::node::Node;
use crate::lane::frame::NodeFrame;
use crate::lane::{Lane, Sent};
use crate::peers::{Claim, fitting};
use crate::session::operations::RETRY_DELAY;

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
            // Nodes that this does not reach get it with the next lane.
            let _ = node.client.publish(&subject, None, None, &json(&node, &all));
        }
        if let Either::Right(()) = select(changed, drained.as_mut()).await {
            return;
        }
    }
}

/// Tells a node which clients connected here while it may not have heard this, as long as the lane lasts.
pub(super) async fn repeat(node: &Node, lane: &Lane, since: u64) {
    let all = node.peers.claims.since(since);
    let mut left = &all[..];
    while !left.is_empty() && !lane.is_closed() {
        let (some, rest) = left.split_at(fitting(left, MAX_AT_ONCE, MAX_BYTES));
        match lane.send_frame(&NodeFrame::Claims(&json(node, some))) {
            Sent::Yes => left = rest,
            Sent::Full => sleep(RETRY_DELAY).await,
            Sent::Failed(_) => return,
        }
    }
}

/// Claims as a payload.
fn json(node: &Node, claims: &[(Arc<str>, u64)]) -> Vec<u8> {
    let claim = |(client, at): &(Arc<str>, u64)| Claim {
        at: *at,
        node: node.name.to_string(),
        client: client.to_string(),
    };
    let all: Vec<_> = claims.iter().map(claim).collect();
    serde_json::to_vec(&all).unwrap_or_default()
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
