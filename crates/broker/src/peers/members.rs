//! The numbers of online members of shared subscriptions at this node, for the other nodes and for the router.
//!
//! Changes are announced at intervals, merged by group, so thousands of clients that connect at once cause one change. No
//! operation waits for an announcement.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use indexmap::IndexSet;

use crate::lock::lock;
use crate::model::subscriptions::group_id::group_id;

/// The number of online members of a node that has announced none: when the first member subscribes, it is online.
pub(crate) const DEFAULT: u32 = 1;

/// The name of this node's router as a receiver of announcements. Other receivers are nodes, which have names.
pub(crate) const ROUTER: &str = "";

/// Numbers of members that are online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Whether all groups that are not listed have [`DEFAULT`] members.
    pub(crate) is_snapshot: bool,
    /// Pairs of a group's number and its count. The last pair of a group counts.
    pub(crate) changed: Vec<(u32, u32)>,
}

/// The members at this node.
pub(crate) struct Members(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By the number of the group.
    groups: HashMap<u32, Group>,
    /// By node that gets announcements.
    receivers: BTreeMap<Arc<str>, Receiver>,
}

#[derive(Clone, Copy, Default)]
struct Group {
    subscriptions: u32,
    online: u32,
}

/// A node that gets announcements, or the router.
#[derive(Default)]
struct Receiver {
    /// Groups whose count may have changed since the last announcement. The iteration order is deterministic, for
    /// simulations.
    changed: IndexSet<u32>,
    /// The announced counts, except those that are [`DEFAULT`].
    announced: HashMap<u32, u32>,
    is_started: bool,
}

impl Members {
    /// Creates an empty table, with the router as its first receiver.
    pub(super) fn new() -> Self {
        let own = Self(Mutex::default());
        own.begin(&Arc::from(ROUTER));
        own
    }

    /// Adds a client's subscription to a group. The caller then calls [`set_online`](Self::set_online) if the client is
    /// connected.
    pub(crate) fn add_subscription(&self, key: &str) {
        lock(&self.0).change([key], |group| group.subscriptions += 1);
    }

    /// Removes a client's subscription to a group, after the client has gone offline there.
    pub(crate) fn remove_subscription(&self, key: &str) {
        lock(&self.0).change([key], |group| group.subscriptions -= 1);
    }

    /// Records that a client with these subscriptions to groups connected or disconnected.
    pub(crate) fn set_online<'k>(&self, keys: impl IntoIterator<Item = &'k str>, is_online: bool) {
        lock(&self.0).change(keys, |group| match is_online {
            true => group.online += 1,
            false => group.online = group.online.saturating_sub(1),
        });
    }

    /// Begins announcements to a receiver, which gets all counts.
    pub(crate) fn begin(&self, receiver: &Arc<str>) {
        let mut table = lock(&self.0);
        let others = table.groups.iter().filter(|(_, group)| group.online != DEFAULT);
        let mut changed: IndexSet<_> = others.map(|(id, _)| *id).collect();
        changed.sort_unstable();
        table.receivers.insert(receiver.clone(), Receiver { changed, ..Receiver::default() });
    }

    /// Ends announcements to a receiver.
    pub(crate) fn end(&self, receiver: &str) {
        lock(&self.0).receivers.remove(receiver);
    }

    /// Takes up to `limit` changes for a receiver; `None` if there are none.
    pub(crate) fn take(&self, receiver: &str, limit: usize) -> Option<Counts> {
        let mut table = lock(&self.0);
        let Table { groups, receivers } = &mut *table;
        let own = receivers.get_mut(receiver)?;
        let mut counts = Counts { is_snapshot: !own.is_started, changed: Vec::new() };
        while counts.changed.len() < limit
            && let Some(id) = own.changed.pop()
        {
            // A group that has ended counts as one that just begins.
            let count = groups.get(&id).map_or(DEFAULT, |group| group.online);
            let before = match count {
                DEFAULT => own.announced.remove(&id),
                _ => own.announced.insert(id, count),
            };
            if before.unwrap_or(DEFAULT) != count {
                counts.changed.push((id, count));
            }
        }
        own.is_started = true;
        (counts.is_snapshot || !counts.changed.is_empty()).then_some(counts)
    }
}

impl Table {
    fn change<'k>(&mut self, keys: impl IntoIterator<Item = &'k str>, change: impl Fn(&mut Group)) {
        for key in keys {
            let id = group_id(key);
            let group = self.groups.entry(id).or_default();
            change(group);
            if group.subscriptions == 0 {
                self.groups.remove(&id);
            }
            for receiver in self.receivers.values_mut() {
                receiver.changed.insert(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> Arc<str> {
        "b".into()
    }

    fn taken(members: &Members, limit: usize) -> Option<Counts> {
        members.take("b", limit).map(|mut counts| {
            counts.changed.sort_unstable();
            counts
        })
    }

    #[test]
    fn a_storm_of_clients_is_one_change() {
        let (members, id) = (Members::new(), group_id("$share/g/t"));
        members.begin(&node());
        assert_eq!(taken(&members, 10), Some(Counts { is_snapshot: true, changed: Vec::new() }));
        for _ in 0..5000 {
            members.add_subscription("$share/g/t");
            members.set_online(["$share/g/t"], true);
        }
        let change_to = |count| Some(Counts { is_snapshot: false, changed: vec![(id, count)] });
        assert_eq!(taken(&members, 10), change_to(5000));
        members.set_online(["$share/g/t"], false);
        members.set_online(["$share/g/t"], true);
        assert_eq!(taken(&members, 10), None, "it is as it was");
        (0..5000).for_each(|_| members.set_online(["$share/g/t"], false));
        assert_eq!(taken(&members, 10), change_to(0));
        (0..5000).for_each(|_| members.remove_subscription("$share/g/t"));
        assert_eq!(taken(&members, 10), change_to(DEFAULT), "the receiver can forget it");
        let table = lock(&members.0);
        assert!(table.groups.is_empty() && table.receivers["b"].announced.is_empty());
    }

    #[test]
    fn most_groups_are_not_announced() {
        let members = Members::new();
        members.begin(&node());
        taken(&members, 10);
        for n in 0..100 {
            let key = format!("$share/g/{n}");
            members.add_subscription(&key);
            members.set_online([&*key], true);
        }
        assert_eq!(taken(&members, 10), None);
    }

    proptest! {
        #[test]
        fn receivers_follow_the_members(
            steps in prop::collection::vec((0..4usize, 0..5usize), 0..80),
            limit in 1..3usize,
        ) {
            let keys = ["$share/g/a", "$share/g/b", "$share/h/a", "$share/i/a"];
            let members = Members::new();
            let (mut known, mut there) = ([(0u32, 0u32); 4], HashMap::new());
            for (at, step) in steps {
                let (all, online) = &mut known[at];
                match step {
                    0 => {
                        members.add_subscription(keys[at]);
                        *all += 1;
                    }
                    1 if online < all => {
                        members.set_online([keys[at]], true);
                        *online += 1;
                    }
                    2 if *online > 0 => {
                        members.set_online([keys[at]], false);
                        *online -= 1;
                    }
                    3 if *all > *online => {
                        members.remove_subscription(keys[at]);
                        *all -= 1;
                    }
                    4 => members.begin(&node()),
                    _ => (),
                }
                while let Some(counts) = members.take("b", limit) {
                    if counts.is_snapshot {
                        there.clear();
                    }
                    there.extend(counts.changed);
                }
                if !lock(&members.0).receivers.contains_key("b") {
                    continue;
                }
                for (key, (all, online)) in keys.iter().zip(known) {
                    let count = there.get(&group_id(key)).copied().unwrap_or(DEFAULT);
                    prop_assert!(all == 0 || count == online, "{key}: {count}");
                }
            }
        }
    }
}
