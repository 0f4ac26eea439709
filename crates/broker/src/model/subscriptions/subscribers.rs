//! The subscribers of one topic filter: clients and groups.

use std::num::NonZero;

use phalanx_mqtt::SubscribeOptions;

use crate::access::Covered;
use crate::model::maps::few_map::FewMap;
use crate::model::subscriptions::group::{Group, Joining};

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

/// The subscribers of one topic filter.
#[derive(Default)]
pub(crate) struct Subscribers {
    pub(crate) each: FewMap<ClientIndex, Subscription>,
    pub(crate) groups: Vec<Group>,
    /// The numbers that identify this topic filter in the index of content filters.
    pub(crate) content: Vec<Numbered>,
}

/// A number that identifies a topic filter in the index of content filters.
pub(crate) struct Numbered {
    pub(crate) number: i64,
    /// Whether its filters test the fields of a JSON payload.
    pub(crate) json: bool,
    pub(crate) count: usize,
}

impl Subscribers {
    /// Adds a subscription. Returns whether it replaced one of the same client.
    pub(crate) fn add(
        &mut self,
        group: Option<Joining<'_>>,
        client: ClientIndex,
        subscription: Subscription,
    ) -> bool {
        let Some(Joining { group: name, id, is_node }) = group else {
            return self.each.insert(client, subscription).is_some();
        };
        let at = self.groups.iter().position(|group| *group.name == *name);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group::new(name, id));
            self.groups.len() - 1
        });
        self.groups[at].add(client, subscription, is_node)
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

    /// Returns the number for filters that test the payload, or for those that do not. `make` assigns it if it is
    /// missing.
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
