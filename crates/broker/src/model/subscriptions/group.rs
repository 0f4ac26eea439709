//! A shared subscription: its members at this node, and the other nodes of the cluster that have members.
//!
//! The members at this node take turns. Each node gets messages in proportion to the number of its online members, and
//! chooses one of them for each message.

use std::cell::Cell;

use indexmap::IndexMap;

use crate::access::Covered;
use crate::model::subscriptions::subscribers::{ClientIndex, Subscription};

type Members = IndexMap<ClientIndex, Subscription, foldhash::fast::RandomState>;

/// Clients of a shared subscription.
pub(crate) struct Group {
    pub(super) name: Box<str>,
    /// The number of the group in messages between the nodes of a cluster.
    pub(crate) id: u32,
    /// The members at this node.
    members: Members,
    /// The next member to receive a message.
    next: Cell<usize>,
    /// This node's turn among the nodes with members, and the other nodes.
    turn: Turn,
    nodes: Vec<OtherNode>,
}

/// Whether this is the key of a shared subscription.
pub(crate) fn is_shared(key: &str) -> bool {
    key.starts_with("$share/")
}

/// A subscription to a group.
#[derive(Clone, Copy)]
pub(crate) struct Joining<'a> {
    pub(crate) group: &'a str,
    pub(crate) id: u32,
    /// Whether the client is another node that has members.
    pub(crate) is_node: bool,
}

/// Another node with members.
struct OtherNode {
    client: ClientIndex,
    subscription: Subscription,
    turn: Turn,
}

/// Smooth weighted round-robin. Each choice adds every node's weight to its credit. The node with the most credit is
/// chosen, and the sum of the weights is deducted from its credit.
#[derive(Default)]
struct Turn(Cell<i64>);

/// The states of the members, from the router.
pub(crate) trait States {
    /// Whether a member at this node, or another node, may receive the message.
    fn may_receive(&self, client: ClientIndex, covered: Covered) -> bool;

    /// Whether a member at this node, or another node, is connected.
    fn is_online(&self, client: ClientIndex) -> bool;

    /// The number of online members of this group at a node, as last announced; `None` for this node.
    fn online_at(&self, node: Option<ClientIndex>, group: u32) -> u32;
}

impl Group {
    pub(crate) fn new(name: &str, id: u32) -> Self {
        Self {
            name: name.into(),
            id,
            members: Members::default(),
            next: Cell::new(0),
            turn: Turn::default(),
            nodes: Vec::new(),
        }
    }

    /// Adds a member. Returns whether it existed; then only its options changed.
    pub(crate) fn add(
        &mut self,
        client: ClientIndex,
        subscription: Subscription,
        is_node: bool,
    ) -> bool {
        if !is_node {
            return self.members.insert(client, subscription).is_some();
        }
        if let Some(known) = self.nodes.iter_mut().find(|node| node.client == client) {
            known.subscription = subscription;
            return true;
        }
        self.nodes.push(OtherNode { client, subscription, turn: Turn::default() });
        false
    }

    /// Removes a member. Returns whether the group is empty.
    pub(crate) fn remove(&mut self, client: ClientIndex) -> bool {
        self.members.swap_remove(&client);
        self.nodes.retain(|node| node.client != client);
        self.members.is_empty() && self.nodes.is_empty()
    }

    /// Chooses the receiver of the next message among the members at this node that may receive it. Members take turns;
    /// connected ones come first.
    pub(crate) fn choose_here(&self, states: &impl States) -> Option<(ClientIndex, Subscription)> {
        self.member(states, |client| states.is_online(client))
            .or_else(|| self.member(states, |_| true))
    }

    /// Chooses the receiver of the next message among the members at all nodes. Nodes are chosen in proportion to their
    /// online members. If no node has an online member, connected nodes come first.
    pub(crate) fn choose(&self, states: &impl States) -> Option<(ClientIndex, Subscription)> {
        if self.nodes.is_empty() {
            return self.choose_here(states);
        }
        let here = || self.member(states, |client| states.is_online(client));
        let online = |node| states.online_at(node, self.id);
        let connected =
            |node: Option<_>| u32::from(node.is_some_and(|node| states.is_online(node)));
        let first = match self.next_node(online) {
            Some(Some(node)) => return Some(node),
            Some(None) => here(),
            None => None,
        };
        // This node may have been chosen in vain: its number may be outdated, or no member may receive the message.
        first
            .or_else(|| self.next_node(|node| node.map_or(0, |node| online(Some(node)))).flatten())
            .or_else(here)
            .or_else(|| self.next_node(connected).flatten())
            .or_else(|| self.member(states, |_| true))
            .or_else(|| self.next_node(|node| u32::from(node.is_some())).flatten())
    }

    /// The next member at this node that satisfies `is_wanted`.
    fn member(
        &self,
        states: &impl States,
        is_wanted: impl Fn(ClientIndex) -> bool,
    ) -> Option<(ClientIndex, Subscription)> {
        let (count, next) = (self.members.len(), self.next.get());
        let (at, client, subscription) = (0..count).find_map(|n| {
            let at = (next + n) % count;
            let (client, subscription) = self.members.get_index(at)?;
            let is_found = is_wanted(*client) && states.may_receive(*client, subscription.covered);
            is_found.then_some((at, *client, *subscription))
        })?;
        // Continue after the chosen member, so that a member after disconnected ones does not get their turns, too.
        self.next.set(at + 1);
        Some((client, subscription))
    }

    /// Chooses the next node by these weights: `None` if all are 0; `Some(None)` for this node.
    fn next_node(
        &self,
        weight: impl Fn(Option<ClientIndex>) -> u32,
    ) -> Option<Option<(ClientIndex, Subscription)>> {
        let others = || self.nodes.iter().map(|node| (Some(node), &node.turn));
        let all = || std::iter::once((None, &self.turn)).chain(others());
        let weight_of = |node: Option<&OtherNode>| i64::from(weight(node.map(|node| node.client)));
        let sum: i64 = all().map(|(node, _)| weight_of(node)).sum();
        if sum == 0 {
            return None;
        }
        let mut best: Option<(Option<&OtherNode>, &Turn)> = None;
        for (node, turn) in all() {
            let weight = weight_of(node);
            if weight == 0 {
                continue;
            }
            // Weights may have changed, so the credit is limited to their current sum.
            turn.0.set((turn.0.get() + weight).clamp(-sum, sum));
            if best.is_none_or(|(_, best)| turn.0.get() > best.0.get()) {
                best = Some((node, turn));
            }
        }
        let (node, turn) = best?;
        turn.0.set(turn.0.get() - sum);
        Some(node.map(|node| (node.client, node.subscription)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use phalanx_mqtt::SubscribeOptions;

    use super::*;

    /// Members at this node are online from index `first` on. By node, whether it is connected, and its number of online
    /// members.
    #[derive(Default)]
    struct Known {
        first: ClientIndex,
        here: u32,
        nodes: BTreeMap<ClientIndex, (bool, u32)>,
        barred: Vec<ClientIndex>,
    }

    impl States for Known {
        fn may_receive(&self, client: ClientIndex, _: Covered) -> bool {
            !self.barred.contains(&client)
        }

        fn is_online(&self, client: ClientIndex) -> bool {
            self.nodes.get(&client).map_or(client >= self.first, |node| node.0)
        }

        fn online_at(&self, node: Option<ClientIndex>, _: u32) -> u32 {
            let count =
                |node| self.nodes.get(&node).map_or(0, |node| if node.0 { node.1 } else { 0 });
            node.map_or(self.here, count)
        }
    }

    fn group(members: u32, nodes: &[ClientIndex]) -> Group {
        let mut group = Group::new("g", 1);
        let (options, identifier, covered) = (SubscribeOptions::default(), None, Covered::UNKNOWN);
        let subscription = Subscription { options, identifier, covered };
        (0..members).for_each(|n| assert!(!group.add(n, subscription, false)));
        nodes.iter().for_each(|node| assert!(!group.add(*node, subscription, true)));
        group
    }

    fn receivers(group: &Group, known: &Known, count: usize) -> Vec<ClientIndex> {
        (0..count).map(|_| group.choose(known).expect("members").0).collect()
    }

    #[test]
    fn connected_members_take_turns() {
        let group = group(10, &[]);
        let receivers_from = |first| receivers(&group, &Known { first, ..Known::default() }, 6);
        assert_eq!(receivers_from(8), [8, 9, 8, 9, 8, 9]);
        assert_eq!(receivers_from(10), [0, 1, 2, 3, 4, 5], "none is connected");
    }

    #[test]
    fn nodes_get_shares_of_their_members() {
        let group = group(2, &[20, 30]);
        let nodes = [(20, (true, 5)), (30, (true, 1))].into();
        let mut known = Known { here: 2, nodes, ..Known::default() };
        let all = receivers(&group, &known, 8);
        assert_eq!(all, [20, 0, 20, 20, 30, 20, 1, 20], "their turns are spread");
        assert_eq!(receivers(&group, &known, 8).iter().filter(|client| **client == 20).count(), 5);
        // When the members of a node have gone, its credit must not affect later choices.
        known.nodes.insert(20, (true, 1_000_000));
        receivers(&group, &known, 1000);
        known.nodes.insert(20, (true, 1));
        let all = receivers(&group, &known, 400);
        let shares = [20, 30].map(|node| all.iter().filter(|client| **client == node).count());
        assert!(shares.iter().all(|share| (98..=102).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_node_without_members_online_is_the_last() {
        let mut group = group(2, &[20, 30, 40]);
        let nodes = [(20, (true, 0)), (30, (false, 9)), (40, (true, 0))].into();
        let mut known = Known { here: 2, nodes, ..Known::default() };
        assert_eq!(receivers(&group, &known, 4), [0, 1, 0, 1]);
        // Both numbers are outdated.
        (known.here, known.first) = (0, 1);
        assert_eq!(receivers(&group, &known, 2), [1, 1]);
        known.here = 2;
        known.first = 2;
        known.nodes.insert(20, (true, 1));
        assert_eq!(receivers(&group, &known, 4), [20; 4]);
        // No member is online anywhere.
        known.nodes.insert(20, (true, 0));
        let mut all = receivers(&group, &known, 4);
        all.sort_unstable();
        assert_eq!(all, [20, 20, 40, 40]);
        known.nodes.values_mut().for_each(|node| node.0 = false);
        assert_eq!(receivers(&group, &known, 2), [0, 1]);
        known.barred = vec![0, 1];
        assert!([20, 30, 40].contains(&receivers(&group, &known, 1)[0]));
        assert_eq!(group.choose_here(&known), None);
        assert!([0, 1, 20, 30].into_iter().all(|client| !group.remove(client)));
        assert!(group.remove(40));
    }
}
