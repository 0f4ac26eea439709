//! Relays: the messages that a lost node had queued for other nodes, and acknowledged, reach them.
//!
//! L is the lost node, A the node that adopts its sessions, and P any other node, or A itself. L's session for P,
//! `$cluster/P`, has them; those of QoS 2 in flight may have reached P.
//!
//! 1. A adopts that session with its messages as the awaited handover `$adopted/L/P`, before the sessions of clients. From
//!    then on A's router adds what A's clients publish for P to its end, so the order of a publisher remains.
//! 2. A asks P which messages of QoS 2 it has received from L, and repeats this. P ends its lane to L, waits until its disk
//!    and its stream have what it received, and answers. It keeps its session for L, with the packet identifiers.
//! 3. A moves the other messages to its session for P, in parts, the last ones while its publishers wait. Each is recorded
//!    with its removal, so a crash loses none and moves none twice. After a crash, the second step is repeated. Messages
//!    that P has received are removed.
//! 4. When all are moved, on A's disk and in its stream, the handover of P's messages for L begins, in which P forgets its
//!    session for L.
//!
//! Until the third step has ended, `$adopted/L/P` has messages. The way to P's sessions depends on P:
//!
//! | P | L's messages for P |
//! |---|---|
//! | runs | as above |
//! | is A | are delivered as if L had sent them, before A has the sessions of clients, which got them at L |
//! | is lost, and a node hands over A's queue for P: to A, or to another adopter of P | are moved to the end of that queue before. `$adopted/P/L` at P's adopter has the identifiers of received messages |
//! | was adopted by A, which has handed over its queue for P | are delivered to P's sessions only, before A has L's sessions |
//! | was adopted by another node, to which A has handed over its queue for P | are dropped after an hour |
//!
//! If A is lost, too, the node that adopts its sessions has `$adopted/L/P`, and continues. `$adopted/L/` becomes
//! `$adopted/L/A`, as of any two lost nodes: with L's messages for A's sessions, if there are any left, and A's messages
//! for L's sessions in `$adopted/A/L`. If the adoption of L had not ended, it is repeated after that of A, and adds no
//! session that is there, so what A has delivered is not delivered again.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::runtime::report;
use phalanx::shutdown::is_draining;
use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::PacketId;

use crate::access::NODE_CLIENTS;
use crate::cluster::adoption::handover::{Asked, Moving, OfLost};
use crate::cluster::intervals::HELLOS;
use crate::cluster::node::Node;
use crate::cluster::other::Other;
use crate::kept::state::Kept;
use crate::lane::frame::NodeFrame;
use crate::model::client_key::ClientKey;
use crate::model::handed::adoption_id;
use crate::peers::handovers::{Awaited, handover_client};
use crate::session::operations::RETRY_DELAY;

impl Node {
    /// Continues the relays: to each node the last one.
    pub(super) async fn continue_relays(
        self: &Rc<Self>,
        kept: &Kept,
        awaited: &[Awaited],
        others: &[Rc<Other>],
    ) {
        let sessions = self.context.stages.sessions;
        let mut nodes = BTreeSet::new();
        for own in awaited.iter().rev().filter(|own| !own.is_relayed && nodes.insert(&own.node)) {
            if is_of_adopted(own, awaited, kept) {
                self.relay_here(own, awaited).await;
            } else if own.node.is_empty() {
                self.end_lane(&own.journal);
                let client = format!("{NODE_CLIENTS}{}", own.journal).into();
                if let Ok(Some(received)) = sessions.received_finally(client).await {
                    let _turn = self.turn().await;
                    self.relay(own, received.into(), (None, None)).await;
                }
            } else {
                let is_of = |other: &&Rc<Other>| {
                    other.hello.borrow().journal.as_deref() == Some(&*own.node)
                };
                if let Some(other) = others.iter().find(is_of) {
                    self.ask_received(other, own);
                }
            }
        }
    }

    /// Relays to the sessions of another lost node, which this node has adopted.
    async fn relay_here(self: &Rc<Self>, own: &Awaited, awaited: &[Awaited]) {
        let Some(lost) = awaited.iter().find(|by| are_of_each_other(by, own)) else { return };
        let received = self.context.stages.sessions.received(lost.client.clone()).await;
        let Ok(received) = received else { return };
        let _turn = self.turn().await;
        self.relay(own, received.into(), (None, Some(adoption_id(&own.node)))).await;
    }

    /// Asks the node of a handover which messages of the lost node it has received.
    fn ask_received(&self, other: &Other, own: &Awaited) {
        let lane = other.lane.borrow().clone();
        let Some(lane) = lane.filter(|lane| !lane.is_closed()) else { return };
        self.peers.handovers.note_reachable(&own.client);
        if now() < other.next_question.get() {
            return;
        }
        let json = serde_json::to_vec(&Asked::new(&own.journal, &[])).unwrap_or_default();
        lane.send_frame(&NodeFrame::AskReceived { lane: lane.id(), json: &json });
        other.next_question.set(now() + self.timeout / HELLOS);
    }

    /// The node that has adopted the sessions of a lost one asks which of its messages this node has received.
    pub(in crate::cluster) fn asked_received(self: &Rc<Self>, other: &Rc<Other>, json: &[u8]) {
        let Ok(Asked { journal, .. }) = serde_json::from_slice::<Asked>(json) else { return };
        self.end_lane(&journal);
        let of = format!("{NODE_CLIENTS}{journal}");
        if !self.handing.borrow_mut().insert(of.clone()) {
            return;
        }
        let (own, other, client) = (self.clone(), other.clone(), of.clone());
        let answering = self.context.stages.control.dispatch(move |_| async move {
            if let Some(received) = own.received_durably(&client).await
                && let Some(lane) = other.lane.borrow().clone()
            {
                let asked = Asked::new(&journal, &received);
                let json = serde_json::to_vec(&asked).unwrap_or_default();
                lane.send_frame(&NodeFrame::Received { lane: lane.id(), json: &json });
            }
            own.handing.borrow_mut().remove(&client);
        });
        if answering.is_err() {
            self.handing.borrow_mut().remove(&of);
        }
    }

    /// The packet identifiers of messages that are received for good. `None` during shutdown.
    async fn received_durably(&self, client: &str) -> Option<Vec<PacketId>> {
        let (sessions, wal) = (self.context.stages.sessions, &self.context.wal);
        let received = loop {
            match sessions.received_finally(client.into()).await {
                Ok(Some(received)) => break received,
                _ if is_draining() => return None,
                _ => sleep(RETRY_DELAY).await,
            }
        };
        wal.durable(wal.latest()).await.ok().map(|()| received)
    }

    /// A node tells which messages of a lost node it has received.
    pub(in crate::cluster) fn told_received(self: &Rc<Self>, other: &Rc<Other>, json: &[u8]) {
        let Ok(Asked { journal, received, .. }) = serde_json::from_slice::<Asked>(json) else {
            return;
        };
        let (to, node) = (other.session.get(), other.hello.borrow().journal.clone());
        let (Some(to), Some(node)) = (to, node) else { return };
        let client = handover_client(&journal, &node);
        let awaited = self.peers.handovers.awaited();
        // One after the other for each node.
        let last = awaited.into_iter().rfind(|own| *own.node == *node && !own.is_relayed);
        let Some(awaited) = last.filter(|own| own.client == client) else { return };
        if !self.handing.borrow_mut().insert(client.to_string()) {
            return;
        }
        let (own, other, of) = (self.clone(), other.clone(), client.clone());
        let relaying = self.context.stages.control.dispatch(move |_| async move {
            let received = received.into_iter().filter_map(PacketId::new).collect();
            let turn = own.turn().await;
            // Meanwhile, its messages may be those of the node that has adopted its sessions.
            let node = format!("{NODE_CLIENTS}{}", awaited.node).into();
            let known = own.context.stages.sessions.subscribed(node).await;
            if known.is_ok_and(|known| known == Some(to)) {
                own.relay(&awaited, received, (Some(to), None)).await;
            }
            drop(turn);
            // The next question follows at once.
            other.next_question.set(now());
            own.handing.borrow_mut().remove(&*of);
        });
        if relaying.is_err() {
            self.handing.borrow_mut().remove(&*client);
        }
    }

    /// Relays to a lost node whose sessions a node adopts, `to` or this one: to the end of its queue here, which is handed
    /// over next, or if it has none, to its adopted sessions. The caller moves messages in its turn.
    pub(super) async fn relay_to_lost(
        self: &Rc<Self>,
        journal: &str,
        received: &OfLost,
        to: Option<ClientKey>,
    ) {
        let awaited = self.peers.handovers.awaited();
        for own in awaited.iter().rev().filter(|own| *own.node == *journal && !own.is_relayed) {
            let client: Arc<str> = format!("{NODE_CLIENTS}{journal}").into();
            let queue = loop {
                match self.context.stages.sessions.subscribed(client.clone()).await {
                    Ok(queue) => break queue,
                    Err(_) if is_draining() => return,
                    Err(_) => sleep(RETRY_DELAY).await,
                }
            };
            let place = match queue {
                Some(queue) => (Some(queue), None),
                None => (to, Some(adoption_id(journal))),
            };
            let received = received.get(&*own.journal).cloned().unwrap_or_default();
            self.relay(own, received, place).await;
        }
    }

    /// Moves the messages of a lost node.
    async fn relay(
        self: &Rc<Self>,
        own: &Awaited,
        received: Arc<[PacketId]>,
        (to, adoption): (Option<ClientKey>, Option<u32>),
    ) {
        let Awaited { client, journal, node, .. } = own;
        let lost = Some(format!("{NODE_CLIENTS}{journal}").into());
        let moving = Moving { client: client.clone(), to, adoption, lost };
        let Some(count) = moving.run(self, received).await else { return };
        let wal = &self.context.wal;
        // Otherwise, the question may be repeated after a crash, when the node has removed the identifiers.
        if to.is_some() && wal.durable(wal.latest()).await.is_err() {
            return;
        }
        self.peers.handovers.note_relayed(client);
        if count > 0 {
            let to = if node.is_empty() { &*self.name } else { node };
            report(format_args!("cluster: relayed {count} messages of {journal} for {to}"));
        }
    }
}

/// Whether two handovers are those of two lost nodes to each other.
fn are_of_each_other(one: &Awaited, other: &Awaited) -> bool {
    one.journal == other.node && one.node == other.journal
}

/// Whether a relay is to another lost node whose sessions this node has, so that they get the messages at once. Until it has
/// handed its own messages over to them, the lost node's messages come behind these.
fn is_of_adopted(own: &Awaited, awaited: &[Awaited], kept: &Kept) -> bool {
    let awaits_own = |by: &Awaited| by.journal == own.node && by.node.is_empty();
    // The messages that the lost node had handed over come first.
    let has_begun =
        |by: &Awaited| by.journal == own.journal && by.node.is_empty() && !by.is_relayed;
    awaited.iter().any(|by| are_of_each_other(by, own))
        && !awaited.iter().any(|by| awaits_own(by) || has_begun(by))
        && kept.journals().is_some_and(|all| !all.contains(&*own.node))
}

/// Whether sessions of this node lack messages that lost nodes had queued for them.
pub(super) fn is_relaying_here(awaited: &[Awaited], kept: &Kept) -> bool {
    let mut left = awaited.iter().filter(|own| !own.is_relayed);
    left.any(|own| own.node.is_empty() || is_of_adopted(own, awaited, kept))
}
