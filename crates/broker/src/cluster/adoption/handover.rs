//! Handovers: nodes pass the messages that they have queued for a lost node to the node that has adopted its sessions.
//!
//! L is the lost node, A the node that has adopted its sessions, and P any other node, or A itself. P has queued the
//! messages that L's clients want in its session for L, `$cluster/JOURNAL`. L's journal has the packet identifiers of the
//! QoS 2 messages that L has received from P.
//!
//! 1. For each P, A adopts L's session for P as an awaited handover, `$adopted/L/P`. Then it adopts the sessions of
//!    clients, which note the adoption. From then on A's router does not deliver the messages that P sends as usual to
//!    the adopted sessions, because P also has them in its queue for L.
//! 2. When the adoption has ended and P has the filters of the adopted sessions, A asks P for L's messages. The request
//!    has the packet identifiers that L has received. A repeats it until the handover has ended.
//! 3. P closes its lane to L, and moves the queue for L to the end of its queue for A, in parts. Each message has the
//!    number of the adoption, and A's router delivers it to the adopted sessions only. P leaves out the QoS 2 messages
//!    that L has received.
//! 4. When few messages are left, P's publishers wait for a moment. P's router moves the last messages, removes L's
//!    subscriptions, and appends the *mark* to the queue for A. So each message that P routes is either moved from the
//!    queue for L or follows the mark.
//! 5. The mark ends the handover at A. A's router delivers later messages from P to the adopted sessions as usual.
//!
//! Before the second step, the messages that L had queued for P reach P: see `relay.rs`.
//!
//! All steps are recorded in the journals: each move of a message together with its removal from the queue for L, and the
//! mark together with the end of `$adopted/L/P`. So a step that is repeated after a crash does nothing twice. If P has no
//! messages for L, or has handed them over, it sends only the mark. A handover that is incomplete after an hour ends,
//! because P's queue for L expires then.
//!
//! If A is lost, too, the node that adopts A's sessions awaits the handovers that A awaited, and the handovers of the
//! messages queued for A. A session then has several adoptions. From P it gets the messages of its oldest adoption whose
//! handover from P is awaited. P hands over its queue for A before its queue for L, because parts of the queue for L may
//! already be in the queue for A. A handover that A awaited continues when A's sessions were added, with those of L.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::CallError;
use phalanx::runtime::report;
use phalanx::shutdown::is_draining;
use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::{PacketId, Reason};
use serde::{Deserialize, Serialize};

use crate::access::NODE_CLIENTS;
use crate::cluster::intervals::HELLOS_PER_TIMEOUT;
use crate::cluster::node::Node;
use crate::cluster::peer_node::PeerNode;
use crate::kept::state::Kept;
use crate::lane::frame::NodeFrame;
use crate::limits::delivery_limiter::Permit;
use crate::model::client_key::ClientKey;
use crate::model::handed::adoption_id;
use crate::peers::handovers::Awaited;
use crate::requests::{HandingOver, Item, LastHanded};
use crate::session::operations::RETRY_DELAY;

/// Maximum number of queued messages moved in one part.
const MAX_PART_MESSAGES: usize = 256;

/// A request for the messages that the receiver has queued for the node with this journal.
#[derive(Deserialize, Serialize)]
pub(in crate::cluster) struct HandoverRequest {
    pub(in crate::cluster) journal: String,
    /// The packet identifiers of QoS 2 messages that the lost node has received: from the receiver, and from other lost
    /// nodes, by journal.
    pub(in crate::cluster) received: Vec<u16>,
    #[serde(default)]
    of_lost: BTreeMap<String, Vec<u16>>,
}

impl HandoverRequest {
    pub(in crate::cluster) fn new(journal: &str, received: &[PacketId]) -> Self {
        let received = received.iter().map(|id| id.get()).collect();
        Self { journal: journal.to_owned(), received, of_lost: BTreeMap::new() }
    }
}

/// The packet identifiers of QoS 2 messages that a lost node had received from other lost nodes, by journal.
pub(super) type ReceivedFromLost = BTreeMap<String, Arc<[PacketId]>>;

impl Node {
    /// Continues the handovers that this node awaits.
    pub(in crate::cluster) fn continue_handovers(self: &Rc<Self>) {
        if self.peers.handovers.is_idle() || self.is_continuing_handovers.replace(true) {
            return;
        }
        let own = self.clone();
        let tended = self.context.stages.control.dispatch(move |_| async move {
            own.run_handovers().await;
            own.is_continuing_handovers.set(false);
        });
        if tended.is_err() {
            self.is_continuing_handovers.set(false);
        }
    }

    async fn run_handovers(self: &Rc<Self>) {
        let Some(kept) = self.context.kept.clone() else { return };
        let stages = self.context.stages;
        for client in self.peers.handovers.take_done() {
            end_session(self, &client).await;
        }
        let others: Vec<_> = self.others.borrow().values().cloned().collect();
        self.continue_relays(&kept, &self.peers.handovers.awaited(), &others).await;
        let awaited = self.peers.handovers.awaited();
        let is_relaying = awaited.iter().any(|entry| entry.node.is_empty() && !entry.is_relayed);
        let is_ready = |entry: &&Awaited| entry.is_relayed && !kept.is_deferred(&entry.client);
        for entry in awaited.iter().rev().filter(is_ready) {
            let Some(version) = self.version_with_adopted(&kept, entry) else { continue };
            self.end_lane(&entry.journal);
            if entry.node.is_empty() {
                if is_relaying {
                    // Messages that another lost node had begun to hand over come first.
                    continue;
                }
                self.peers.handovers.mark_reachable(&entry.client);
                let Ok(received) = stages.sessions.received(entry.client.clone()).await else {
                    return;
                };
                let Ok(of_lost) = self.received_from_lost(&entry.journal, &awaited).await else {
                    return;
                };
                hand_over(self, &entry.journal, (received.into(), of_lost), None).await;
                continue;
            }
            let is_of = |other: &&Rc<PeerNode>| {
                other.hello.borrow().journal.as_deref() == Some(&*entry.node)
            };
            if let Some(other) = others.iter().find(is_of) {
                self.ask(other, (entry, version), &awaited).await;
            }
        }
    }

    /// The packet identifiers of messages that the adopted node with this journal had received from other nodes.
    async fn received_from_lost(
        &self,
        journal: &str,
        awaited: &[Awaited],
    ) -> Result<ReceivedFromLost, CallError> {
        let mut all = BTreeMap::new();
        for entry in
            awaited.iter().filter(|entry| *entry.journal == *journal && !entry.node.is_empty())
        {
            let received = self.context.stages.sessions.received(entry.client.clone()).await?;
            all.insert(entry.node.to_string(), received.into());
        }
        Ok(all)
    }

    /// The first known version of this node's filters that includes those of the adopted sessions; `None` until the
    /// adoption has ended.
    fn version_with_adopted(&self, kept: &Kept, own: &Awaited) -> Option<u64> {
        let mut adopted = self.own_adoptions.borrow_mut();
        if let Some(version) = adopted.get(&*own.journal) {
            return Some(*version);
        }
        if kept.other_journals()?.contains(&*own.journal) {
            return None;
        }
        let version = self.peers.interest.version();
        adopted.insert(own.journal.to_string(), version);
        Some(version)
    }

    /// Asks a node to hand over, if it has the filters of the adopted sessions. The caller begins with the last adoption.
    async fn ask(&self, other: &PeerNode, (own, version): (&Awaited, u64), awaited: &[Awaited]) {
        let lane = other.lane.borrow().clone();
        let Some(lane) = lane.filter(|lane| !lane.is_closed()) else { return };
        self.peers.handovers.mark_reachable(&own.client);
        let is_due = now() >= other.next_request.get();
        if !is_due || !self.peers.interest.is_known(&other.name, version) {
            return;
        }
        let sessions = self.context.stages.sessions;
        let Ok(received) = sessions.received(own.client.clone()).await else { return };
        let mut asked = HandoverRequest::new(&own.journal, &received);
        let Ok(of_lost) = self.received_from_lost(&own.journal, awaited).await else { return };
        let numbers = |ids: &[PacketId]| ids.iter().map(|id| id.get()).collect();
        asked.of_lost = of_lost.iter().map(|(node, ids)| (node.clone(), numbers(ids))).collect();
        let json = serde_json::to_vec(&asked).unwrap_or_default();
        lane.send_frame(&NodeFrame::HandOver { lane: lane.id(), json: &json });
        other.next_request.set(now() + self.timeout / HELLOS_PER_TIMEOUT);
    }

    /// Handles the request of an adopting node for the messages that this node has queued for a lost node.
    pub(in crate::cluster) fn handle_handover_request(
        self: &Rc<Self>,
        other: &Rc<PeerNode>,
        json: &[u8],
    ) {
        let Ok(HandoverRequest { journal, received, of_lost }) =
            serde_json::from_slice::<HandoverRequest>(json)
        else {
            return;
        };
        let Some(to) = other.session.get() else { return };
        self.end_lane(&journal);
        if !self.active_handovers.borrow_mut().insert(journal.clone()) {
            return;
        }
        let ids = |numbers: Vec<u16>| numbers.into_iter().filter_map(PacketId::new).collect();
        let of_lost = of_lost.into_iter().map(|(node, numbers)| (node, ids(numbers))).collect();
        let (own, of, received) = (self.clone(), journal.clone(), (ids(received), of_lost));
        let handover = self.context.stages.control.dispatch(move |_| async move {
            hand_over(&own, &of, received, Some(to)).await;
            own.active_handovers.borrow_mut().remove(&of);
        });
        if handover.is_err() {
            self.active_handovers.borrow_mut().remove(&journal);
        }
    }

    /// Closes the lane to a node whose sessions were adopted, so that it gets no more messages.
    pub(super) fn end_lane(&self, journal: &str) {
        if !self.adopted_journals.borrow_mut().insert(journal.to_owned()) {
            return;
        }
        for other in self.others.borrow().values() {
            if other.hello.borrow().journal.as_deref() == Some(journal) {
                other.close(ADOPTED_ERROR);
            }
        }
    }
}

/// The error for a node that asks for a lane after its sessions were adopted.
pub(in crate::cluster) const ADOPTED_ERROR: &str = "another node has adopted its sessions";

/// Hands over the messages for the node with this journal to node `to`; `None` for this node.
async fn hand_over(
    node: &Rc<Node>,
    journal: &str,
    (received, of_lost): (Arc<[PacketId]>, ReceivedFromLost),
    to: Option<ClientKey>,
) {
    let _turn = node.acquire_move_permit().await;
    node.relay_to_lost(journal, &of_lost, to).await;
    let client: Arc<str> = format!("{NODE_CLIENTS}{journal}").into();
    let adoption = Some(adoption_id(journal));
    let moving = QueueMove { client: client.clone(), to, adoption, lost: None };
    let Some(count) = moving.run(node, received).await else { return };
    end_session(node, &client).await;
    if count > 0 {
        report(format_args!("cluster: handed over {count} messages for {journal}"));
    }
}

/// A move of all messages of a session.
pub(super) struct QueueMove {
    pub(super) client: Arc<str>,
    /// See [`HandingOver`].
    pub(super) to: Option<ClientKey>,
    pub(super) adoption: Option<u32>,
    /// The lost node that had queued the messages, if this node did not.
    pub(super) lost: Option<Arc<str>>,
}

impl QueueMove {
    /// Moves all messages except the received ones, and the last ones while publishers wait. Returns the number moved;
    /// `None` during shutdown. If the messages are this node's own, the session gets no further ones.
    pub(super) async fn run(&self, node: &Rc<Node>, received: Arc<[PacketId]>) -> Option<usize> {
        let Self { client, to, adoption, lost } = self;
        let (sessions, ends) = (node.context.stages.sessions, lost.is_none());
        // A lost node's queue for this node gets no further messages: this node delivers to its own sessions directly.
        let gets_more = ends || to.is_some();
        let (mut permit, mut count) = (None, 0);
        loop {
            let taken = loop {
                match sessions
                    .take_messages(client.clone(), received.clone(), MAX_PART_MESSAGES)
                    .await
                {
                    Ok(taken) => break taken,
                    Err(_) if is_draining() => return None,
                    Err(_) => sleep(RETRY_DELAY).await,
                }
            };
            let are_all = taken.as_ref().is_none_or(|taken| taken.are_all);
            let is_last = are_all && (permit.is_some() || taken.is_none() || !gets_more);
            let mut part = HandingOver {
                from: 0,
                to: *to,
                adoption: *adoption,
                publisher: lost.clone(),
                messages: Vec::new(),
                last: None,
            };
            let mut session = None;
            if let Some(taken) = taken {
                count += taken.messages.len();
                (part.from, part.messages) = (taken.number, taken.messages);
                session = Some((taken.key, taken.keys)).filter(|_| ends);
            }
            part.last = is_last.then_some(LastHanded { session });
            // The router may be full.
            while node.context.stages.routing.call(Item::HandOver(part.clone())).await.is_err() {
                if is_draining() {
                    return None;
                }
                sleep(RETRY_DELAY).await;
            }
            if is_last {
                return Some(count);
            }
            if are_all {
                permit = Some(pause_publishers(node).await);
            }
        }
    }
}

/// Makes publishers wait until the permit is dropped. On return, all messages routed earlier are in the queues.
async fn pause_publishers(node: &Node) -> Option<Permit> {
    let permit = node.context.delivery_limiter.acquire(usize::MAX, 1).await?;
    // Wait for a cohort that began earlier.
    let _ = node.context.stages.routing.call(Item::Reserve(0)).await;
    while !permit.is_alone() && !is_draining() {
        sleep(RETRY_DELAY).await;
    }
    Some(permit)
}

/// Ends a session whose messages were all moved.
async fn end_session(node: &Node, client: &str) {
    let stages = node.context.stages;
    while !is_draining() {
        let ended = stages.sessions.end_session(client.into(), Reason::SUCCESS, stages.routing);
        if ended.await.is_ok() {
            return;
        }
        sleep(RETRY_DELAY).await;
    }
}
