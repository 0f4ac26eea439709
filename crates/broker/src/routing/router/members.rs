//! Chooses among the members of shared subscriptions that are online at each node.

use super::Router;
use super::clients::{Client, OnlineMembers};
use crate::access::{Covered, Policy};
use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};
use crate::model::subscriptions::group::{Group, States};
use crate::model::subscriptions::subscribers::{ClientIndex, Subscription};
use crate::peers::members::{Counts, DEFAULT};

/// The states of clients with respect to one message.
struct Known<'a> {
    clients: &'a [Client],
    here: &'a OnlineMembers,
    policy: &'a Policy,
    topic: &'a str,
}

impl States for Known<'_> {
    fn may_receive(&self, client: ClientIndex, covered: Covered) -> bool {
        self.policy.may_receive(covered, &self.clients[client as usize].identity, self.topic)
    }

    fn is_online(&self, client: ClientIndex) -> bool {
        self.clients[client as usize].online
    }

    fn online_at(&self, node: Option<ClientIndex>, group: u32) -> u32 {
        let Some(node) = node else { return self.here.of(group) };
        let client = &self.clients[node as usize];
        let count = || client.members.as_ref().map_or(DEFAULT, |members| members.of(group));
        // While a node's queue is full, members at other nodes get the messages.
        let is_full = client.node_capacity.as_ref().is_some_and(|capacity| capacity.is_full());
        if client.online && !is_full { count() } else { 0 }
    }
}

/// Chooses the member of a group that receives a message, or the node that chooses it.
pub(super) fn choose(
    group: &Group,
    message: &Message,
    (clients, here): (&[Client], &OnlineMembers),
    policy: &Policy,
) -> Option<(ClientIndex, Subscription)> {
    let known = Known { clients, here, policy, topic: &message.topic };
    match message.source {
        Source::Here => group.choose(&known),
        // The publisher's node has chosen this node.
        _ => group.choose_here(&known),
    }
}

impl Router {
    /// Sets the numbers of members that are online at a node; `None` for this node.
    pub(crate) fn set_online(&mut self, node: Option<ClientKey>, counts: Counts) {
        let Some(node) = node else { return self.online.set(counts) };
        // A node announces its presence before its members, so it is known unless its session has ended.
        if let Some(index) = self.indices.get(&node) {
            self.clients[*index as usize].members.get_or_insert_default().set(counts);
        }
    }
}
