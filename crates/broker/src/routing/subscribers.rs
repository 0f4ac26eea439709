//! Who has subscribed to one topic filter: each client for itself, and groups that share it.

use std::cell::Cell;
use std::num::NonZero;

use indexmap::IndexMap;
use phalanx_mqtt::SubscribeOptions;

use crate::access::Covered;
use crate::content::path::path;
use crate::trie::Trie;

/// What a subscription takes in bytes, about, that is known by `key`, if no other shares a level of its topic filter: in
/// its session, in the tree, and in the index of filters.
pub(crate) fn cost(key: &str) -> usize {
    const OWN: usize = 256;
    let levels = path(key).map_or(1, |path| path.filter.split('/').count());
    OWN + levels * Trie::<Subscribers>::LEVEL_BYTES + 4 * key.len()
}

/// A client's number in the router.
pub(crate) type ClientIndex = u32;

/// One client's subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) options: SubscribeOptions,
    /// What the client knows it by.
    pub(crate) identifier: Option<NonZero<u32>>,
    /// Whether its messages are to be looked at.
    pub(crate) covered: Covered,
}

type Members = IndexMap<ClientIndex, Subscription, foldhash::fast::RandomState>;

/// Clients that share the messages of a subscription among them.
pub(crate) struct Group {
    name: Box<str>,
    members: Members,
    /// Whose turn it is.
    next: Cell<usize>,
}

/// All who have subscribed to one filter.
#[derive(Default)]
pub(crate) struct Subscribers {
    pub(crate) each: Members,
    pub(crate) groups: Vec<Group>,
    /// Subscriptions with a filter on what messages carry: they are in the index, under these numbers.
    pub(crate) content: Vec<Numbered>,
}

/// The number by which a topic filter's subscriptions are found in the index.
pub(crate) struct Numbered {
    pub(crate) number: i64,
    /// Whether they look at the fields of a payload in JSON.
    pub(crate) json: bool,
    pub(crate) count: usize,
}

impl Subscribers {
    /// Files a subscription. Whether the client had one, which it replaces.
    pub(crate) fn add(
        &mut self,
        group: Option<&str>,
        client: ClientIndex,
        subscription: Subscription,
    ) -> bool {
        let Some(name) = group else { return self.each.insert(client, subscription).is_some() };
        let at = self.groups.iter().position(|group| *group.name == *name);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group::new(name));
            self.groups.len() - 1
        });
        self.groups[at].add(client, subscription)
    }

    /// Takes a subscription away, if there is one.
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

    /// The number of those that look at the payload, or of those that do not; made if there was none.
    pub(crate) fn number(&mut self, json: bool, make: impl FnOnce() -> i64) -> &mut Numbered {
        let at = self.content.iter().position(|numbered| numbered.json == json);
        let at = at.unwrap_or_else(|| {
            self.content.push(Numbered { number: make(), json, count: 0 });
            self.content.len() - 1
        });
        &mut self.content[at]
    }

    /// One of them is no more.
    pub(crate) fn one_less(&mut self, json: bool) {
        for numbered in &mut self.content {
            numbered.count -= usize::from(numbered.json == json);
        }
        self.content.retain(|numbered| numbered.count > 0);
    }
}

impl Group {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), members: Members::default(), next: Cell::new(0) }
    }

    /// Adds a member. Whether it was there, and only its subscription is another now.
    pub(crate) fn add(&mut self, client: ClientIndex, subscription: Subscription) -> bool {
        self.members.insert(client, subscription).is_some()
    }

    /// Takes a member away. Whether none is left.
    pub(crate) fn remove(&mut self, client: ClientIndex) -> bool {
        self.members.swap_remove(&client);
        self.members.is_empty()
    }

    /// Who of the group gets the next message: one after the other, those first who are there, and none who may
    /// not receive it.
    pub(crate) fn choose(
        &self,
        turn: usize,
        may_receive: impl Fn(ClientIndex, Covered) -> bool,
        is_online: impl Fn(ClientIndex) -> bool,
    ) -> Option<(ClientIndex, Subscription)> {
        let count = self.members.len();
        let member = |n: usize| {
            let member = self.members.get_index((turn + n) % count);
            let member = member.map(|(client, own)| (*client, *own));
            member.filter(|(client, own)| may_receive(*client, own.covered))
        };
        let there = (0..count).filter_map(member).find(|(client, _)| is_online(*client));
        there.or_else(|| (0..count).find_map(member))
    }

    /// Whose turn it is, and it is the next one's then.
    pub(crate) fn turn(&self) -> usize {
        let turn = self.next.get();
        self.next.set((turn + 1) % self.members.len().max(1));
        turn
    }
}
