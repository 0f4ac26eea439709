//! The clients that the router knows.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use super::Router;
use crate::access::{Identity, NODE_CLIENTS};
use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};
use crate::model::node_capacity::NodeCapacity;
use crate::model::session::Adoptions;
use crate::model::subscriptions::subscribers::ClientIndex;
use crate::peers::handovers::handover_of;
use crate::peers::members::{Counts, DEFAULT};
use crate::requests::Subscriber;

/// A client with subscriptions, or the session of an awaited handover.
pub(super) struct Client {
    pub(super) key: ClientKey,
    pub(super) identity: Identity,
    pub(super) online: bool,
    /// The ID of its session in the journal; 0 if not persistent.
    pub(super) durable_id: u64,
    /// The session that gets the client's messages, and the ID of that session in the journal. It is the client's own
    /// session or, for a node, the first of its [relays](Relay).
    pub(super) target: (ClientKey, u64),
    /// Whether it is another node of the cluster.
    pub(super) is_node: bool,
    /// For another node: the space in its queue, for which publishers wait.
    pub(super) node_capacity: Option<Arc<NodeCapacity>>,
    /// For another node: its online members of shared subscriptions, if it has announced any.
    pub(super) members: Option<Box<OnlineMembers>>,
    /// The adoptions through which the session came to this node, oldest first.
    pub(super) adoptions: Adoptions,
    /// The last message delivered to it, and the index of the delivery: a message is delivered once, even if
    /// several subscriptions match.
    pub(super) last: Cell<(u64, usize)>,
    /// For another node: the last message that satisfied one of its content filters.
    pub(super) found: Cell<u64>,
}

/// A session with messages that a lost node had queued for another node. They precede the messages that this node sends
/// to that node.
pub(super) struct Relay {
    /// The session's ID in the journal, and its key.
    session: u64,
    key: ClientKey,
    /// The journal of the receiving node; empty for this node.
    node: Box<str>,
}

/// The number of members online at a node, by group. A missing entry means [`DEFAULT`].
#[derive(Default)]
pub(super) struct OnlineMembers(HashMap<u32, u32, foldhash::fast::RandomState>);

impl OnlineMembers {
    pub(super) fn set(&mut self, Counts { is_snapshot, changed }: Counts) {
        if is_snapshot {
            self.0.clear();
        }
        for (group, count) in changed {
            match count {
                DEFAULT => self.0.remove(&group),
                _ => self.0.insert(group, count),
            };
        }
    }

    pub(super) fn of(&self, group: u32) -> u32 {
        self.0.get(&group).copied().unwrap_or(DEFAULT)
    }
}

impl Client {
    /// Whether [`is_excluded`](super::receivers::is_excluded) may apply: the client is a node, or its session was
    /// adopted.
    pub(super) fn is_special(&self) -> bool {
        self.is_node || self.adoptions.is_some()
    }
}

impl Router {
    /// Removes a client with its subscriptions.
    pub(crate) fn forget(&mut self, client: ClientKey, keys: &[Box<str>]) {
        self.unsubscribe(client, keys);
        if let Some(index) = self.indices.remove(&client) {
            let session = self.clients[index as usize].durable_id;
            if self.relays.iter().any(|relay| relay.session == session) {
                self.end_relay(session);
            }
            if let Some(peers) = &self.peers {
                peers.handovers.end(&self.clients[index as usize].identity.client);
            }
            self.free.push(index);
            self.nodes.retain(|node| *node != index);
        }
    }

    /// Records that a client connected or disconnected.
    pub(crate) fn present(&mut self, client: ClientKey, online: bool) {
        if let Some(index) = self.indices.get(&client) {
            self.clients[*index as usize].online = online;
        }
    }

    /// Returns the index of a client, and adds the client if it is unknown.
    pub(super) fn index(&mut self, subscriber: Subscriber) -> ClientIndex {
        let Subscriber { key, durable_id, identity, adoptions, has_messages } = subscriber;
        if let Some(index) = self.indices.get(&key) {
            return *index;
        }
        if has_messages && let Some((_, node)) = handover_of(&identity.client) {
            self.relays.push(Relay { session: durable_id, key, node: node.into() });
        }
        let index = *self.indices.entry(key).or_insert_with(|| {
            let is_node = identity.is_node();
            if let Some(peers) = &self.peers {
                peers.handovers.begin(&identity.client, durable_id, has_messages);
            }
            let (last, target) = (Cell::new((0, 0)), (key, durable_id));
            let peers = self.peers.as_ref().filter(|_| is_node);
            let node_capacity = peers.map(|peers| peers.node_capacities.of(&identity.client));
            let client = Client {
                key,
                identity,
                online: true,
                durable_id,
                target,
                is_node,
                node_capacity,
                members: None,
                adoptions,
                last,
                found: Cell::new(0),
            };
            let index = match self.free.pop() {
                Some(index) => {
                    self.clients[index as usize] = client;
                    index
                }
                None => {
                    self.clients.push(client);
                    u32::try_from(self.clients.len() - 1).expect("fewer than 2³² clients")
                }
            };
            if is_node {
                self.nodes.push(index);
            }
            index
        });
        if !self.relays.is_empty() {
            self.set_targets();
        }
        index
    }

    /// Sends the messages for each node to its first relay, which ends last. This preserves their order.
    pub(super) fn set_targets(&mut self) {
        for index in &self.nodes {
            let client = &mut self.clients[*index as usize];
            let node = client.identity.client.strip_prefix(NODE_CLIENTS);
            let of_node = self.relays.iter().filter(|relay| Some(&*relay.node) == node);
            let first = of_node.min_by_key(|relay| relay.session);
            client.target =
                first.map_or((client.key, client.durable_id), |relay| (relay.key, relay.session));
        }
    }

    /// Removes a relay that has ended.
    pub(super) fn end_relay(&mut self, session: u64) {
        self.relays.retain(|relay| relay.session != session);
        self.set_targets();
    }
}

/// The journal of the node that sent a message; empty for this node.
pub(super) fn node_of<'c>(
    message: &'c Message,
    indices: &HashMap<ClientKey, ClientIndex, foldhash::fast::RandomState>,
    clients: &'c [Client],
) -> Option<&'c str> {
    if message.source == Source::Here {
        return Some("");
    }
    let Some(from) = message.from else {
        // The message comes from a queue: of the lost node that its publisher names, or else of this node.
        let lost =
            message.publisher.as_deref().and_then(|publisher| publisher.strip_prefix(NODE_CLIENTS));
        return Some(lost.unwrap_or_default());
    };
    let index = indices.get(&from)?;
    clients[*index as usize].identity.client.strip_prefix(NODE_CLIENTS)
}
