//! Relays: the messages that a lost node had acknowledged and queued for other nodes are passed to those nodes.
//!
//! L is the lost node, A the node that adopts its sessions, and P any other node, or A itself. The messages are in L's
//! session for P, `$cluster/P`. P may already have received those of QoS 2 in flight.
//!
//! 1. A adopts that session with its messages as the awaited handover `$adopted/L/P`, before the sessions of clients.
//!    From then on A's router appends the messages that A's clients publish for P to it, which preserves each publisher's
//!    order.
//! 2. A asks P, repeatedly, which QoS 2 messages it has received from L. P closes its lane to L, waits until the received
//!    messages are on its disk and in its stream, and answers. P keeps its session for L, with the packet identifiers.
//! 3. A removes the messages that P has received, and moves the others to its session for P, in parts, the last part
//!    while its publishers wait. Each message is recorded together with its removal, so a crash neither loses nor repeats
//!    one. After a crash, step 2 is repeated.
//! 4. When all messages are moved, and this is on A's disk and in its stream, the handover of P's messages for L begins.
//!    In it P ends its session for L.
//!
//! Until step 3 has ended, `$adopted/L/P` has messages. How they reach P's sessions depends on the state of P:
//!
//! | state of P | L's messages for P |
//! |---|---|
//! | P runs | as above |
//! | P is A | are delivered as if L had sent them, before A has the sessions of L's clients, which got them at L |
//! | P is lost, and A has not handed over its queue for P to P's adopter | are first moved to the end of that queue. The adopter, which may be A, has the identifiers of received messages in `$adopted/P/L` |
//! | P was adopted by A, which has handed over its queue for P | are delivered to P's sessions only, before A has L's sessions |
//! | P was adopted by L, which was lost before it had handed over its own queue for P | are first moved to the end of A's queue for L, for P's sessions only, before A has L's sessions |
//! | P was adopted by another node, to which A has handed over its queue for P | are dropped after an hour |
//!
//! If A is lost, too, the node that adopts its sessions gets `$adopted/L/P` with them, and continues. `$adopted/L/`
//! becomes `$adopted/L/A`. L and A are then treated like any two lost nodes: `$adopted/L/A` has the remaining messages of
//! L for A's sessions, and `$adopted/A/L` those of A for L's sessions. If the adoption of L had not ended, it is repeated
//! after that of A. It skips sessions that were added, so nothing that A delivered is delivered again.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::runtime::report;
use phalanx::shutdown::is_draining;
use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::PacketId;

use crate::access::NODE_CLIENTS;
use crate::cluster::adoption::handover::{HandoverRequest, QueueMove, ReceivedFromLost};
use crate::cluster::intervals::HELLOS_PER_TIMEOUT;
use crate::cluster::node::Node;
use crate::cluster::peer_node::PeerNode;
use crate::kept::state::Kept;
use crate::lane::frame::NodeFrame;
use crate::model::client_key::ClientKey;
use crate::model::handed::adoption_id;
use crate::peers::handovers::{Awaited, handover_client};
use crate::session::operations::RETRY_DELAY;

impl Node {
    /// Continues the relays. Each node gets the messages of one lost node at a time, beginning with the last adoption.
    pub(super) async fn continue_relays(
        self: &Rc<Self>,
        kept: &Kept,
        awaited: &[Awaited],
        others: &[Rc<PeerNode>],
    ) {
        let sessions = self.context.stages.sessions;
        let mut nodes = BTreeSet::new();
        for entry in
            awaited.iter().rev().filter(|entry| !entry.is_relayed && nodes.insert(&entry.node))
        {
            if is_of_adopted(entry, awaited, kept) {
                self.relay_here(entry, awaited).await;
            } else if let Some(by) = by_same_adoption(entry, awaited, kept) {
                if !self.relay_behind(entry, by).await {
                    kept.remove_deferred(&by.client);
                }
            } else if entry.node.is_empty() {
                self.end_lane(&entry.journal);
                let client = format!("{NODE_CLIENTS}{}", entry.journal).into();
                if let Ok(Some(received)) = sessions.received_finally(client).await {
                    let _turn = self.acquire_move_permit().await;
                    self.relay(entry, received.into(), (None, None)).await;
                }
            } else {
                let is_of = |other: &&Rc<PeerNode>| {
                    other.hello.borrow().journal.as_deref() == Some(&*entry.node)
                };
                if let Some(other) = others.iter().find(is_of) {
                    self.ask_received(other, entry);
                }
            }
        }
    }

    /// Relays to the sessions of another lost node that this node has adopted.
    async fn relay_here(self: &Rc<Self>, own: &Awaited, awaited: &[Awaited]) {
        let Some(lost) = awaited.iter().find(|by| are_of_each_other(by, own)) else { return };
        let received = self.context.stages.sessions.received(lost.client.clone()).await;
        let Ok(received) = received else { return };
        let _turn = self.acquire_move_permit().await;
        self.relay(own, received.into(), (None, Some(adoption_id(&own.node)))).await;
    }

    /// Relays to the sessions of another node that the lost node had adopted. They are added with those of the lost node, and
    /// get the messages from this node's queue for the lost node: behind the messages that this node has handed over to it.
    /// Publishers of the lost node come here when the sessions were added, so their next messages are behind these. Returns
    /// false without such a queue, or if the messages go to the end of this node's queue for that other node.
    async fn relay_behind(self: &Rc<Self>, own: &Awaited, by: &Awaited) -> bool {
        let sessions = self.context.stages.sessions;
        let queue_for = |journal: &str| sessions.routed(format!("{NODE_CLIENTS}{journal}").into());
        let _turn = self.acquire_move_permit().await;
        let (Ok(of_node), Ok(of_lost)) =
            (queue_for(&own.node).await, queue_for(&own.journal).await)
        else {
            // The broker is busy.
            return true;
        };
        let (None, Some(queue)) = (of_node, of_lost) else { return false };
        if let Ok(received) = sessions.received(by.client.clone()).await {
            let place = (Some(queue), Some(adoption_id(&own.node)));
            self.relay(own, received.into(), place).await;
        }
        true
    }

    /// Asks the node of a handover which messages of the lost node it has received.
    fn ask_received(&self, other: &PeerNode, own: &Awaited) {
        let lane = other.lane.borrow().clone();
        let Some(lane) = lane.filter(|lane| !lane.is_closed()) else { return };
        self.peers.handovers.mark_reachable(&own.client);
        if now() < other.next_request.get() {
            return;
        }
        let json = serde_json::to_vec(&HandoverRequest::new(&own.journal, &[])).unwrap_or_default();
        lane.send_frame(&NodeFrame::AskReceived { lane: lane.id(), json: &json });
        other.next_request.set(now() + self.timeout / HELLOS_PER_TIMEOUT);
    }

    /// Handles the question of an adopting node which messages of a lost node this node has received.
    pub(in crate::cluster) fn handle_received_request(
        self: &Rc<Self>,
        other: &Rc<PeerNode>,
        json: &[u8],
    ) {
        let Ok(HandoverRequest { journal, .. }) = serde_json::from_slice::<HandoverRequest>(json)
        else {
            return;
        };
        self.end_lane(&journal);
        let of = format!("{NODE_CLIENTS}{journal}");
        if !self.active_handovers.borrow_mut().insert(of.clone()) {
            return;
        }
        let (own, other, client) = (self.clone(), other.clone(), of.clone());
        let answering = self.context.stages.control.dispatch(move |_| async move {
            if let Some(received) = own.received_durably(&client).await
                && let Some(lane) = other.lane.borrow().clone()
            {
                let asked = HandoverRequest::new(&journal, &received);
                let json = serde_json::to_vec(&asked).unwrap_or_default();
                lane.send_frame(&NodeFrame::Received { lane: lane.id(), json: &json });
            }
            own.active_handovers.borrow_mut().remove(&client);
        });
        if answering.is_err() {
            self.active_handovers.borrow_mut().remove(&of);
        }
    }

    /// The packet identifiers of received messages, once these are durable. `None` during shutdown.
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

    /// Handles the answer of a node: which messages of a lost node it has received.
    pub(in crate::cluster) fn handle_received(self: &Rc<Self>, other: &Rc<PeerNode>, json: &[u8]) {
        let Ok(HandoverRequest { journal, received, .. }) =
            serde_json::from_slice::<HandoverRequest>(json)
        else {
            return;
        };
        let (to, node) = (other.session.get(), other.hello.borrow().journal.clone());
        let (Some(to), Some(node)) = (to, node) else { return };
        let client = handover_client(&journal, &node);
        let awaited = self.peers.handovers.awaited();
        // The relays to one node run one at a time.
        let last = awaited.into_iter().rfind(|entry| *entry.node == *node && !entry.is_relayed);
        let Some(awaited) = last.filter(|entry| entry.client == client) else { return };
        if !self.active_handovers.borrow_mut().insert(client.to_string()) {
            return;
        }
        let (own, other, of) = (self.clone(), other.clone(), client.clone());
        let relaying = self.context.stages.control.dispatch(move |_| async move {
            let received = received.into_iter().filter_map(PacketId::new).collect();
            let turn = own.acquire_move_permit().await;
            // The node may have been lost meanwhile, and its queue handed over to its adopter.
            let node = format!("{NODE_CLIENTS}{}", awaited.node).into();
            let known = own.context.stages.sessions.routed(node).await;
            if known.is_ok_and(|known| known == Some(to)) {
                own.relay(&awaited, received, (Some(to), None)).await;
            }
            drop(turn);
            // Allows the next question immediately.
            other.next_request.set(now());
            own.active_handovers.borrow_mut().remove(&*of);
        });
        if relaying.is_err() {
            self.active_handovers.borrow_mut().remove(&*client);
        }
    }

    /// Relays to a lost node whose sessions were adopted by node `to`, or by this one. The messages go to the end of this
    /// node's queue for it, which is handed over next. If there is no such queue, they go to the adopted sessions. The
    /// caller holds the [`MovePermit`](crate::cluster::node::MovePermit).
    pub(super) async fn relay_to_lost(
        self: &Rc<Self>,
        journal: &str,
        received: &ReceivedFromLost,
        to: Option<ClientKey>,
    ) {
        let awaited = self.peers.handovers.awaited();
        for entry in
            awaited.iter().rev().filter(|entry| *entry.node == *journal && !entry.is_relayed)
        {
            let client: Arc<str> = format!("{NODE_CLIENTS}{journal}").into();
            let queue = loop {
                match self.context.stages.sessions.routed(client.clone()).await {
                    Ok(queue) => break queue,
                    Err(_) if is_draining() => return,
                    Err(_) => sleep(RETRY_DELAY).await,
                }
            };
            let place = match queue {
                Some(queue) => (Some(queue), None),
                None => (to, Some(adoption_id(journal))),
            };
            let received = received.get(&*entry.journal).cloned().unwrap_or_default();
            self.relay(entry, received, place).await;
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
        let moving = QueueMove { client: client.clone(), to, adoption, lost };
        let Some(count) = moving.run(self, received).await else { return };
        let wal = &self.context.wal;
        // Durable before the handover begins, in which the other node removes the packet identifiers: after a crash, it
        // could not answer the question again.
        if to.is_some() && wal.durable(wal.latest()).await.is_err() {
            return;
        }
        self.peers.handovers.mark_relayed(client);
        if count > 0 {
            let to = if node.is_empty() { &*self.name } else { node };
            report(format_args!("cluster: relayed {count} messages of {journal} for {to}"));
        }
    }
}

/// Whether two handovers are between the same two lost nodes, in opposite directions.
fn are_of_each_other(one: &Awaited, other: &Awaited) -> bool {
    one.journal == other.node && one.node == other.journal
}

/// Whether a relay goes directly to the adopted sessions of another lost node. Not before this node has handed over its
/// own messages to these sessions: until then, the relayed messages are appended to its queue.
fn is_of_adopted(own: &Awaited, awaited: &[Awaited], kept: &Kept) -> bool {
    let awaits_own = |by: &Awaited| by.journal == own.node && by.node.is_empty();
    let is_ready = |by: &Awaited| are_of_each_other(by, own) && !kept.is_deferred(&by.client);
    // Messages that the lost node had begun to hand over come first.
    let has_begun =
        |by: &Awaited| by.journal == own.journal && by.node.is_empty() && !by.is_relayed;
    awaited.iter().any(is_ready)
        && !awaited.iter().any(|by| awaits_own(by) || has_begun(by))
        && kept.other_journals().is_some_and(|all| !all.contains(&*own.node))
}

/// The handover in the opposite direction, if it came with the same sessions, which are being added: the lost node had
/// adopted those of the other node.
fn by_same_adoption<'a>(own: &Awaited, awaited: &'a [Awaited], kept: &Kept) -> Option<&'a Awaited> {
    let is_it = |by: &&Awaited| are_of_each_other(by, own) && kept.is_being_added(&by.client);
    awaited.iter().find(is_it)
}

/// Whether sessions of this node still lack messages that lost nodes had queued for them.
pub(super) fn is_relaying_here(awaited: &[Awaited], kept: &Kept) -> bool {
    let mut left = awaited.iter().filter(|entry| !entry.is_relayed);
    left.any(|entry| {
        entry.node.is_empty()
            || is_of_adopted(entry, awaited, kept)
            || by_same_adoption(entry, awaited, kept).is_some()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::tests::{config, journal};
    use crate::cluster_names::JournalName;
    use crate::kept::lease::Record;
    use crate::kept::state::OtherJournal;
    use crate::peers::Peers;
    use crate::peers::handovers::Handovers;

    /// Node b was adopted by node a, and a by this node. The sessions of b are added with those of a.
    #[test]
    fn messages_for_sessions_that_are_being_added_are_relayed_behind_others() {
        let kept = Kept::new(&config().cluster, "1", Peers::new("a").status.kept.clone());
        let (a, b) = (journal().to_string(), "b.1");
        let clients = [handover_client(b, &a), handover_client(&a, b)];
        let handovers = Handovers::default();
        handovers.begin(&clients[0], 1, false);
        handovers.begin(&clients[1], 2, true);
        let awaited = handovers.awaited();
        let is_relayed = || is_relaying_here(&awaited, &kept);
        kept.set_own_journal(JournalName { node: "c".into(), id: 1 });
        let holder = kept.own_journal().unwrap().to_string();
        let lease = Record { holder: holder.clone(), ..Record::default() };
        let start = String::new();
        let (is_unreadable, number, since) = (false, 1, Default::default());
        let other = OtherJournal { lease, start, is_unreadable, number, since };
        let set = |all: &[JournalName]| {
            let all = all.iter().map(|journal| (journal.clone(), other.clone()));
            kept.with_others(|others| *others = BTreeMap::from_iter(all));
        };
        set(&[journal()]);
        assert!(!is_relayed(), "this process has just started");
        kept.set_others_known();
        assert!(!is_relayed(), "it has not continued the adoption");
        kept.set_deferred(Some(clients.into()));
        assert!(is_relayed());
        let [_, own] = &awaited[..] else { panic!("{awaited:?}") };
        let by = by_same_adoption(own, &awaited, &kept).map(|by| &*by.journal);
        assert_eq!(
            (by, is_of_adopted(own, &awaited, &kept)),
            (Some(b), false),
            "b's sessions are not here"
        );
        kept.remove_deferred(&awaited[0].client);
        assert!(by_same_adoption(own, &awaited, &kept).is_none());
        kept.set_deferred(None);
        assert!(!is_relayed(), "the adoption has failed");
        for (adopter, is_deferred) in [(a, true), (holder, false)] {
            kept.set_adopted(BTreeMap::from([(b.to_owned(), adopter)]));
            assert_eq!(kept.is_deferred(&awaited[0].client), is_deferred);
        }
        set(&[]);
        assert!(is_relayed());
    }
}
