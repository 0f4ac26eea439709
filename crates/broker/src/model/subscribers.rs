//! The subscribers of one topic filter: clients and groups.

use std::cell::Cell;
use std::num::NonZero;

use indexmap::IndexMap;
use phalanx_mqtt::SubscribeOptions;

use crate::access::Covered;

/// A client's index in the router.
pub(crate) type ClientIndex = u32;

/// One client's subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) options: SubscribeOptions,
    /// The subscription identifier.
    pub(crate) identifier: Option<NonZero<u32>>,
    /// Whether each message has to be authorized.
    pub(crate) covered: Covered,
}

type Members = IndexMap<ClientIndex, Subscription, foldhash::fast::RandomState>;

/// Clients of a shared subscription.
pub(crate) struct Group {
    name: Box<str>,
    /// Its number in messages between the nodes of a cluster.
    pub(crate) id: u32,
    members: Members,
    /// The next member to receive a message.
    next: Cell<usize>,
}

/// The subscribers of one topic filter.
#[derive(Default)]
pub(crate) struct Subscribers {
    pub(crate) each: Members,
    pub(crate) groups: Vec<Group>,
    /// Numbers of the content filters below this topic filter in the index.
    pub(crate) content: Vec<Numbered>,
}

/// The number that identifies a topic filter in the index.
pub(crate) struct Numbered {
    pub(crate) number: i64,
    /// Whether its filters test the fields of a JSON payload.
    pub(crate) json: bool,
    pub(crate) count: usize,
}

impl Subscribers {
    /// Adds a subscription. Returns whether it replaces one of the client.
    pub(crate) fn add(
        &mut self,
        group: Option<(&str, u32)>,
        client: ClientIndex,
        subscription: Subscription,
    ) -> bool {
        let Some((name, id)) = group else {
            return self.each.insert(client, subscription).is_some();
        };
        let at = self.groups.iter().position(|group| *group.name == *name);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group::new(name, id));
            self.groups.len() - 1
        });
        self.groups[at].add(client, subscription)
    }

    /// Removes a subscription, if it exists.
    pub(crate) fn remove(&mut self, group: Option<&str>, client: ClientIndex) {
        let Some(name) = group else {
            self.each.swap_remove(&client);
            return;
        };
        if let Some(at) = self.groups.iter().position(|group| *group.name == *name)
            && self.groups[at].remove(client)
        {
            self.groups.swap_remove(at);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty() && self.groups.is_empty() && self.content.is_empty()
    }

    /// The number for filters that test the payload, or for those that do not; `make` assigns it.
    pub(crate) fn number(&mut self, json: bool, make: impl FnOnce() -> i64) -> &mut Numbered {
        let at = self.content.iter().position(|numbered| numbered.json == json);
        let at = at.unwrap_or_else(|| {
            self.content.push(Numbered { number: make(), json, count: 0 });
            self.content.len() - 1
        });
        &mut self.content[at]
    }

    /// Counts the removal of a filter.
    pub(crate) fn one_less(&mut self, json: bool) {
        for numbered in &mut self.content {
            numbered.count -= usize::from(numbered.json == json);
        }
        self.content.retain(|numbered| numbered.count > 0);
    }
}

impl Group {
    pub(crate) fn new(name: &str, id: u32) -> Self {
        Self { name: name.into(), id, members: Members::default(), next: Cell::new(0) }
    }

    /// Adds a member. Returns whether it existed, so that only its options changed.
    pub(crate) fn add(&mut self, client: ClientIndex, subscription: Subscription) -> bool {
        self.members.insert(client, subscription).is_some()
    }

    /// Removes a member. Returns whether the group is empty.
    pub(crate) fn remove(&mut self, client: ClientIndex) -> bool {
        self.members.swap_remove(&client);
        self.members.is_empty()
    }

    /// Chooses the receiver of the next message: members in turn, connected ones first, only those that may
    /// receive it.
    pub(crate) fn choose(
        &self,
        may_receive: impl Fn(ClientIndex, Covered) -> bool,
        is_online: impl Fn(ClientIndex) -> bool,
    ) -> Option<(ClientIndex, Subscription)> {
        let (count, next) = (self.members.len(), self.next.get());
        let member = |n: usize| {
            let at = (next + n) % count;
            let member = self.members.get_index(at).map(|(client, own)| (at, *client, *own));
            member.filter(|(_, client, own)| may_receive(*client, own.covered))
        };
        let there = (0..count).filter_map(member).find(|(_, client, _)| is_online(*client));
        let (at, client, own) = there.or_else(|| (0..count).find_map(member))?;
        // Behind it: a member behind disconnected ones does not get their turns.
        self.next.set(at + 1);
        Some((client, own))
    }
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::SubscribeOptions;

    use super::*;

    #[test]
    fn connected_members_take_turns() {
        let mut group = Group::new("g", 1);
        let (options, identifier, covered) = (SubscribeOptions::default(), None, Covered::UNKNOWN);
        (0..10).for_each(|n| _ = group.add(n, Subscription { options, identifier, covered }));
        let receivers = |least: ClientIndex| -> Vec<_> {
            let chosen = || group.choose(|_, _| true, |client| client >= least);
            (0..6).map(|_| chosen().expect("members").0).collect()
        };
        assert_eq!(receivers(8), [8, 9, 8, 9, 8, 9]);
        assert_eq!(receivers(10), [0, 1, 2, 3, 4, 5], "none is connected");
    }
}
