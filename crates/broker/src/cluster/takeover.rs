//! Takeover: a client that connects here is disconnected from other nodes.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_nats::Rejected;

use crate::access::Identity;
use crate::cluster::node::Node;
use crate::cluster::peer_node::VERSION;
use crate::context::Context;
use crate::events::drops::{DropReason, Dropped};
use crate::lane::frame::NodeFrame;
use crate::lane::{Lane, Sent};
use crate::peers::{Claim, count_fitting};
use crate::session::operations::RETRY_DELAY;

/// Maximum number of claims in one message, and of bytes of their client identifiers and users. Even with all characters
/// escaped, such a message is less than 1 MiB, the default limit of NATS. So is one claim with the longest names.
pub(super) const MAX_CLIENTS: usize = 1000;
pub(super) const MAX_CLIENT_BYTES: usize = 64 * 1024;

/// The subject of claims. Nodes with another version of the protocol use another one.
pub(super) fn subject(node: &Node) -> String {
    node.subject(&format!("claims.{VERSION}"))
}

/// Tells the other nodes which clients connected here, until shutdown.
pub(super) async fn announce_claims(node: Rc<Node>) {
    let mut drained = pin!(draining());
    let subject = subject(&node);
    loop {
        let changed = node.peers.claims.changed();
        loop {
            let all = node.peers.claims.take(MAX_CLIENTS, MAX_CLIENT_BYTES);
            if all.is_empty() {
                break;
            }
            wait_until_owner(&node, is_draining).await;
            publish(&node, &subject, &all).await;
        }
        if let Either::Right(()) = select(changed, drained.as_mut()).await {
            return;
        }
    }
}

/// Sends claims to all nodes, in order. Waits while the connection's buffer is full.
async fn publish(node: &Node, subject: &str, mut left: &[(Identity, u64)]) {
    let mut batch_size = left.len();
    while !left.is_empty() {
        let (some, rest) = left.split_at(batch_size.min(left.len()));
        let number = node.claims.get() + 1;
        match node.client.publish(subject, None, None, &json(node, some, number)) {
            Err(Rejected::Full(_)) if is_draining() => return,
            // The lanes stay open, so they do not repeat these claims: wait.
            Err(Rejected::Full(_)) => sleep(RETRY_DELAY).await,
            Err(Rejected::TooLarge(..)) if some.len() > 1 => batch_size = some.len() / 2,
            Err(Rejected::TooLarge(..)) => {
                count_oversized(node);
                left = rest;
            }
            Ok(()) => {
                node.claims.set(number);
                left = rest;
            }
            // Without a connection the lanes end, and the next ones repeat the claims.
            Err(_) => left = rest,
        }
    }
}

/// Counts a claim that is too large for NATS.
fn count_oversized(node: &Node) {
    node.context.counters.drops.add(DropReason::ClusterClaim, 1, Dropped::default);
}

/// Waits until this node owns its sessions, or until `is_over`. If this node was cut off, another node may have adopted
/// its sessions, and earlier claims of this node would end them there.
async fn wait_until_owner(node: &Node, is_over: impl Fn() -> bool) {
    let is_owner = || node.context.kept.as_ref().is_none_or(|kept| kept.is_open());
    while !is_owner() && !is_over() {
        sleep(RETRY_DELAY).await;
    }
}

/// Repeats the claims since `since`, which the node may have missed, as long as the lane lasts.
pub(super) async fn repeat(node: &Node, lane: &Lane, since: Duration) {
    wait_until_owner(node, || lane.is_closed()).await;
    let all = node.peers.claims.since(since);
    let send = |some: &[_]| lane.send_frame(&NodeFrame::Claims(&json(node, some, 0)));
    send_all(&all, send, || lane.is_closed(), || count_oversized(node)).await;
}

/// Sends claims in parts, until this fails or `is_over`. Calls `count_oversized` for each one that is too large.
async fn send_all(
    mut left: &[(Identity, u64)],
    send: impl Fn(&[(Identity, u64)]) -> Sent,
    is_over: impl Fn() -> bool,
    count_oversized: impl Fn(),
) {
    let mut batch_size = MAX_CLIENTS;
    while !left.is_empty() && !is_over() {
        let (some, rest) = left.split_at(count_fitting(
            left.iter().map(|claim| &claim.0),
            batch_size,
            MAX_CLIENT_BYTES,
        ));
        match send(some) {
            Sent::Yes => left = rest,
            Sent::Full => sleep(RETRY_DELAY).await,
            Sent::TooLarge(_) if some.len() > 1 => batch_size = some.len() / 2,
            Sent::TooLarge(_) => {
                count_oversized();
                left = rest;
            }
            Sent::Failed(_) => return,
        }
    }
}

/// Encodes claims as a payload with this number, which is 0 if they are repeated.
fn json(node: &Node, claims: &[(Identity, u64)], number: u64) -> Vec<u8> {
    let claim = |(identity, at): &(Identity, u64)| Claim {
        at: *at,
        node: node.name.to_string(),
        start: node.start.clone(),
        client: identity.client.to_string(),
        user: identity.user.as_deref().map(str::to_owned),
        number,
    };
    let all: Vec<_> = claims.iter().map(claim).collect();
    serde_json::to_vec(&all).unwrap_or_default()
}

/// Handles claims of another node: ends the sessions of the same clients and users here.
pub(super) fn handle_claims(node: &Rc<Node>, payload: &[u8]) {
    let Ok(claims) = serde_json::from_slice::<Vec<Claim>>(payload) else { return };
    if let Some(Claim { node: name, start, number: number @ 1.., .. }) = claims.first() {
        let other = node.others.borrow().get(name.as_str()).cloned();
        if let Some(other) = other.filter(|other| other.start() == *start) {
            other.record_claims(*number, true);
        }
    }
    let Context { kept, .. } = &node.context;
    // NATS may deliver a claim long after its node was lost. If this node has adopted that node's sessions, the claim
    // must not end them.
    let is_adopted = |start: &str| kept.as_ref().is_some_and(|kept| kept.has_adopted(start));
    for claim in claims {
        if claim.node != *node.name && !is_adopted(&claim.start) {
            node.ending.end(claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use phalanx::sim;

    use super::*;

    #[test]
    fn claims_that_are_too_large_together_are_sent_in_parts() {
        sim::block_on(
            0,
            None,
            |_| (),
            |()| async {
                let claim = |at| (Identity { user: None, client: format!("{at}").into() }, at);
                let all: Vec<_> = (0..100).map(claim).collect();
                let sent = RefCell::<Vec<u64>>::default();
                let send = |some: &[(Identity, u64)]| {
                    if some.len() > 3 || some.iter().any(|(_, at)| *at == 50) {
                        return Sent::TooLarge(String::new());
                    }
                    sent.borrow_mut().extend(some.iter().map(|(_, at)| *at));
                    Sent::Yes
                };
                let oversized = Cell::new(0);
                send_all(&all, send, || false, || oversized.set(oversized.get() + 1)).await;
                assert!(sent.take().into_iter().eq((0..100).filter(|at| *at != 50)));
                assert_eq!(oversized.get(), 1);
            },
        );
    }
}
