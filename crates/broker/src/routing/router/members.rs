//! The members of shared subscriptions that are online at each node, and the choice among them.

use super::Router;
use super::clients::{Client, OnlineMembers};
use crate::access::{Covered, Policy};
use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};
use crate::model::subscriptions::group::{Group, States};
use crate::model::subscriptions::subscribers::{ClientIndex, Subscription};
use crate::peers::members::{Counts, DEFAULT};

/// The clients, for one message.
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
        // Others get the messages while its queue is full.
        let is_full = client.room.as_ref().is_some_and(|room| room.is_full());
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
        // Another node has chosen this one.
        _ => group.choose_here(&known),
    }
}

impl Router {
    /// Takes the numbers of members that are online at a node; `None` for this node.
    pub(crate) fn set_online(&mut self, node: Option<ClientKey>, counts: Counts) {
        let Some(node) = node else { return self.online.set(counts) };
        // It has announced that it is present before.
        if let Some(index) = self.indices.get(&node) {
            self.clients[*index as usize].members.get_or_insert_default().set(counts);
        }
    }
}
