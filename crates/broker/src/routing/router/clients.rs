//! The clients that the router knows.

use std::cell::Cell;
use std::collections::HashMap;

use super::Router;
use crate::access::{Identity, NODE_CLIENTS};
use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};
use crate::model::session::Adoptions;
use crate::model::subscribers::ClientIndex;
use crate::requests::Subscriber;

/// A client with subscriptions, or a handover.
pub(super) struct Client {
    pub(super) key: ClientKey,
    pub(super) identity: Identity,
    pub(super) online: bool,
    /// The ID of its session in the journal; 0 if not persistent.
    pub(super) durable_id: u64,
    /// Whether it is another node of the cluster.
    pub(super) is_node: bool,
    /// The adoptions of its session, if another node kept it before, oldest first.
    pub(super) adoptions: Adoptions,
    /// The last message delivered to it, and the index of the delivery: a message is delivered once, even if
    /// several subscriptions match.
    pub(super) last: Cell<(u64, usize)>,
}

impl Client {
    /// Whether it does not get every message that it wants: it is a node, or its session was adopted.
    pub(super) fn is_special(&self) -> bool {
        self.is_node || self.adoptions.is_some()
    }
}

impl Router {
    /// Removes a client with its subscriptions.
    pub(crate) fn forget(&mut self, client: ClientKey, keys: &[Box<str>]) {
        self.unsubscribe(client, keys);
        if let Some(index) = self.indices.remove(&client) {
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

    /// The index of a client, which is added if it is unknown.
    pub(super) fn index(&mut self, subscriber: Subscriber) -> ClientIndex {
        let Subscriber { key, durable_id, identity, adoptions } = subscriber;
        *self.indices.entry(key).or_insert_with(|| {
            let is_node = identity.is_node();
            if let Some(peers) = &self.peers {
                peers.handovers.begin(&identity.client, durable_id);
            }
            let last = Cell::new((0, 0));
            let client =
                Client { key, identity, online: true, durable_id, is_node, adoptions, last };
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
        })
    }
}

/// The journal of the node that sent a message; empty for this node.
pub(super) fn node_of<'c>(
    message: &Message,
    indices: &HashMap<ClientKey, ClientIndex, foldhash::fast::RandomState>,
    clients: &'c [Client],
) -> Option<&'c str> {
    let Some(from) = message.from.filter(|_| message.source != Source::Here) else {
        return Some("");
    };
    let index = indices.get(&from)?;
    clients[*index as usize].identity.client.strip_prefix(NODE_CLIENTS)
}
