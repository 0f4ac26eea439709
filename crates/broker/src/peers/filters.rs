//! The filters that this node announces to the other nodes.
//!
//! A node has to get every message that one of its clients may want, so the announced filters cover all subscriptions.
//! The conditions of a topic filter are announced up to [`Bounds`]. Beyond these, the topic filter is announced without
//! conditions, and this node tests them itself. Conditions that were already announced stay announced, so that a client
//! that comes and goes changes little. Shared subscriptions are always announced with their groups.

use std::borrow::Cow;

use indexmap::{IndexMap, IndexSet};

use crate::content::parse::in_text;
use crate::content::path::{has_content, literal_key, path};

/// Limits on the announced conditions of one topic filter.
#[derive(Clone, Copy)]
struct Bounds {
    conditions: usize,
    /// Bytes of the conditions' keys.
    bytes: usize,
    /// Conditions that an index does not decide. Another node evaluates each of them for each message.
    computed: usize,
    /// Conditions announced immediately when another subscription changes. The others [follow](Filters::settle).
    at_once: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { conditions: 65_536, bytes: 16 << 20, computed: 64, at_once: 64 }
    }
}

/// The subscriptions of this node's clients. The iteration order is deterministic, for simulations.
#[derive(Default)]
pub(super) struct Filters {
    /// The number of clients of each shared subscription.
    shared: IndexMap<Box<str>, u32>,
    /// The other subscriptions, by the key of the topic filter without a condition.
    by_filter: IndexMap<Box<str>, FilterSubscriptions>,
    /// Topic filters with conditions that remain to be announced, at intervals.
    unannounced: IndexSet<Box<str>>,
    bounds: Bounds,
}

/// The subscriptions to one topic filter.
#[derive(Default)]
struct FilterSubscriptions {
    /// The number of subscriptions without a condition.
    plain: u32,
    /// The subscriptions with a condition, by announced key.
    conditions: IndexMap<Box<str>, Condition>,
    /// The bytes of these keys, and the number of conditions that an index does not decide.
    bytes: usize,
    computed: usize,
    /// The keys that are not announced now.
    hidden: IndexSet<Box<str>>,
    /// Whether there are too many conditions to announce. Cleared only when half of the bounds suffice, so that a few
    /// clients that come and go change nothing.
    is_coarse: bool,
    /// Whether the topic filter is announced without a condition.
    is_base_announced: bool,
}

/// The subscriptions with one condition.
#[derive(Default)]
struct Condition {
    count: u32,
    is_computed: bool,
}

impl FilterSubscriptions {
    /// Whether the conditions are within `1 / part` of the bounds.
    fn fits(&self, bounds: Bounds, part: usize) -> bool {
        self.conditions.len() <= bounds.conditions / part
            && self.bytes <= bounds.bytes / part
            && self.computed <= bounds.computed / part
    }

    /// Announces necessary filters, up to `limit` conditions, and withdraws unnecessary ones. Returns whether conditions
    /// remain to be announced.
    fn announce(
        &mut self,
        base_key: &str,
        (bounds, limit): (Bounds, usize),
        on_change: &mut dyn FnMut(&str, bool),
    ) -> bool {
        self.is_coarse = !self.fits(bounds, 1) || self.is_coarse && !self.fits(bounds, 2);
        if self.plain > 0 || self.is_coarse {
            if !std::mem::replace(&mut self.is_base_announced, true) {
                on_change(base_key, true);
            }
            return false;
        }
        for _ in 0..limit {
            let Some(key) = self.hidden.pop() else { break };
            on_change(&key, true);
        }
        if self.is_base_announced && self.hidden.is_empty() {
            self.is_base_announced = false;
            on_change(base_key, false);
        }
        !self.hidden.is_empty()
    }
}

impl Filters {
    /// Adds a client's subscription, with a condition that an index does not decide if it `is_computed`. Passes the changes
    /// of the announced filters to `on_change`.
    pub(super) fn add(
        &mut self,
        key: &str,
        is_computed: bool,
        mut on_change: impl FnMut(&str, bool),
    ) {
        let Some(path) = path(key).filter(|path| is_announced(path.filter)) else { return };
        if path.group.is_some() {
            let count = self.shared.entry(key.into()).or_default();
            *count += 1;
            if *count == 1 {
                on_change(key, true);
            }
            return;
        }
        let base_key = literal_key(path.filter);
        let subscriptions = self.by_filter.entry((&*base_key).into()).or_default();
        if !has_content(key) {
            subscriptions.plain += 1;
        } else {
            let key = announced_key(key);
            let condition = subscriptions.conditions.entry((&*key).into()).or_default();
            condition.count += 1;
            if condition.count == 1 {
                condition.is_computed = is_computed;
                subscriptions.bytes += key.len();
                subscriptions.computed += usize::from(is_computed);
                subscriptions.hidden.insert((&*key).into());
            }
        }
        self.announce(&base_key, on_change);
    }

    /// Removes a client's subscription.
    pub(super) fn remove(&mut self, key: &str, mut on_change: impl FnMut(&str, bool)) {
        let Some(path) = path(key).filter(|path| is_announced(path.filter)) else { return };
        if path.group.is_some() {
            if decrement(&mut self.shared, key) {
                on_change(key, false);
            }
            return;
        }
        let base_key = literal_key(path.filter);
        let Some(subscriptions) = self.by_filter.get_mut(&*base_key) else { return };
        if !has_content(key) {
            subscriptions.plain = subscriptions.plain.saturating_sub(1);
        } else {
            let key = announced_key(key);
            let Some(condition) = subscriptions.conditions.get_mut(&*key) else { return };
            condition.count -= 1;
            if condition.count == 0 {
                subscriptions.bytes -= key.len();
                subscriptions.computed -= usize::from(condition.is_computed);
                subscriptions.conditions.swap_remove(&*key);
                if !subscriptions.hidden.swap_remove(&*key) {
                    on_change(&key, false);
                }
            }
        }
        self.announce(&base_key, on_change);
    }

    /// Announces up to `limit` remaining conditions. Until then a topic filter without a condition covers them.
    pub(super) fn announce_remaining(
        &mut self,
        limit: usize,
        mut on_change: impl FnMut(&str, bool),
    ) {
        let mut left = limit;
        while left > 0
            && let Some(base_key) = self.unannounced.pop()
        {
            let Some(subscriptions) = self.by_filter.get_mut(&base_key) else { continue };
            let before = subscriptions.hidden.len();
            let has_more = subscriptions.announce(&base_key, (self.bounds, left), &mut on_change);
            // Counts at least one, so that this terminates.
            left = left.saturating_sub((before - subscriptions.hidden.len()).max(1));
            if has_more {
                self.unannounced.insert(base_key);
            }
        }
    }

    /// Announces the changes that the change of a subscription requires.
    fn announce(&mut self, base_key: &str, mut on_change: impl FnMut(&str, bool)) {
        let Some(subscriptions) = self.by_filter.get_mut(base_key) else { return };
        if subscriptions.announce(base_key, (self.bounds, self.bounds.at_once), &mut on_change) {
            // Until the rest is announced, the topic filter without a condition covers it.
            self.unannounced.insert(base_key.into());
        } else if subscriptions.plain == 0 && subscriptions.conditions.is_empty() {
            self.by_filter.swap_remove(base_key);
        }
    }

    /// All announced filters.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        let subscriptions = self.by_filter.iter().flat_map(|(filter, subscriptions)| {
            let conditions =
                subscriptions.conditions.keys().filter(|key| !subscriptions.hidden.contains(*key));
            subscriptions.is_base_announced.then_some(filter).into_iter().chain(conditions)
        });
        self.shared.keys().chain(subscriptions).map(|key| &**key)
    }
}

/// The key with which a condition is announced. The condition is in the text if possible, because such filters can share
/// a packet.
fn announced_key(key: &str) -> Cow<'_, str> {
    in_text(key).map_or(Cow::Borrowed(key), Cow::Owned)
}

/// Whether other nodes can have messages for this topic filter. `$SYS` is local to each node.
fn is_announced(filter: &str) -> bool {
    filter != "$SYS" && !filter.starts_with("$SYS/")
}

/// Decrements a count, and removes it at 0. Returns whether it was removed.
fn decrement(counts: &mut IndexMap<Box<str>, u32>, key: &str) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    *count == 0 && counts.swap_remove(key).is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { conditions: 8, bytes: 400, computed: 2, at_once: 3 };

    /// Applies the announcements as another node would.
    struct Pair {
        filters: Filters,
        remote: BTreeSet<String>,
        /// The number of changes.
        change_count: usize,
    }

    impl Pair {
        fn new(bounds: Bounds) -> Self {
            let filters = Filters { bounds, ..Filters::default() };
            Self { filters, remote: BTreeSet::new(), change_count: 0 }
        }

        fn with(&mut self, change: impl FnOnce(&mut Filters, &mut dyn FnMut(&str, bool))) {
            let Self { filters, remote, change_count } = self;
            change(filters, &mut |key, is| {
                *change_count += 1;
                match is {
                    true => assert!(remote.insert(key.into()), "{key} is there already"),
                    false => assert!(remote.remove(key), "{key} is not there"),
                }
            });
            let all: BTreeSet<_> = self.filters.all().map(str::to_owned).collect();
            assert_eq!(all, self.remote);
        }

        fn change(&mut self, key: &str, is_added: bool) {
            let is_computed = key.contains("+ 1");
            self.with(|filters, on_change| match is_added {
                true => filters.add(key, is_computed, on_change),
                false => filters.remove(key, on_change),
            });
        }

        fn announce_remaining(&mut self) {
            while !self.filters.unannounced.is_empty() {
                let before = self.remote.len();
                self.with(|filters, on_change| filters.announce_remaining(2, on_change));
                assert!(self.remote.len() <= before + 2);
            }
        }

        fn there(&self) -> Vec<&str> {
            self.remote.iter().map(|key| &**key).collect()
        }
    }

    fn key(n: usize) -> String {
        format!("$where/a = {n}/t")
    }

    #[test]
    fn conditions_are_announced_up_to_a_bound() {
        let mut pair = Pair::new(BOUNDS);
        (0..8).for_each(|n| pair.change(&key(n), true));
        assert_eq!(pair.remote.len(), 8);
        pair.change(&key(8), true);
        pair.change(&key(9), true);
        assert_eq!((pair.remote.len(), pair.remote.contains("t")), (9, true));
        // A few clients that come and go change nothing.
        let change_count = pair.change_count;
        (0..10).for_each(|n| {
            pair.change(&key(9), n % 2 > 0);
            pair.announce_remaining();
        });
        assert_eq!(pair.change_count, change_count);
        (0..5).for_each(|n| pair.change(&key(n), false));
        pair.announce_remaining();
        assert!(pair.remote.contains("t"), "more than half are left");
        pair.change(&key(5), false);
        assert_eq!(pair.there(), [key(6), key(7), key(8), key(9)]);
        (6..10).for_each(|n| pair.change(&key(n), false));
        assert!(pair.remote.is_empty() && pair.filters.by_filter.is_empty());
    }

    #[test]
    fn long_and_computed_conditions_have_bounds() {
        for long in [format!("$where/a = '{}'/t", "x".repeat(400)), "$where/a + 1 = 5/t".into()] {
            let mut pair = Pair::new(BOUNDS);
            let computed = |n| format!("$where/a + 1 = {n}/t");
            (0..2).for_each(|n| pair.change(&computed(n), true));
            assert_eq!(pair.remote.len(), 2);
            pair.change(&long, true);
            assert!(pair.remote.contains("t") && !pair.remote.contains(&long));
            pair.change(&long, false);
            assert!(pair.remote.contains("t"), "there were as many before");
            pair.change(&computed(0), false);
            assert_eq!(pair.there(), [computed(1)]);
        }
    }

    #[test]
    fn a_plain_subscription_covers_later_conditions() {
        let mut pair = Pair::new(BOUNDS);
        pair.change(&key(0), true);
        pair.change("t", true);
        (1..8).for_each(|n| pair.change(&key(n), true));
        assert_eq!(pair.there(), [key(0), "t".into()]);
        pair.change("t", false);
        assert!(pair.remote.contains("t"), "until all conditions are announced");
        pair.announce_remaining();
        assert_eq!(pair.remote.len(), 8);
        let change_count = pair.change_count;
        pair.change("t", true);
        pair.change("t", false);
        assert_eq!(pair.change_count, change_count + 2, "they remain announced");
    }

    #[test]
    fn keys_of_all_kinds_are_announced() {
        let mut pair = Pair::new(Bounds::default());
        // The same condition in two forms.
        pair.change("t\0\0a = 1", true);
        pair.change("$where/a = 1/t", true);
        pair.change("t\0$json\0a = 1", true);
        pair.change("$SYS/#", true);
        pair.change("$share/g/$where/a = 1/t", true);
        let json = "$where-json/a = 1/t";
        assert_eq!(pair.there(), ["$share/g/$where/a = 1/t", json, "$where/a = 1/t"]);
        pair.change("$where/a = 1/t", false);
        assert_eq!(pair.remote.len(), 3);
        for key in ["t\0\0a = 1", "t\0$json\0a = 1", "$SYS/#", "$share/g/$where/a = 1/t"] {
            pair.change(key, false);
        }
        assert!(pair.remote.is_empty() && pair.filters.by_filter.is_empty());
    }

    proptest! {
        #[test]
        fn announced_filters_follow_the_subscriptions(
            steps in prop::collection::vec((0..13usize, 0..3usize), 0..80),
        ) {
            let keys = [
                "a", "$where/x = 1/a", "$where/x = 2/a", "a\0\0x = 1", "a\0\0x + 1 = 2", "a\0\0x + 1 = 3",
                "a\0\0x + 1 = 4", "a?x=3", "a?x=4", "a?x=5", "$share/g/a", "b/#", "a?x\0$literal",
            ];
            let bounds = Bounds { conditions: 4, bytes: 60, computed: 2, at_once: 1 };
            let (mut pair, mut counts) = (Pair::new(bounds), [0; 13]);
            for (n, step) in steps {
                if step == 2 {
                    pair.with(|filters, on_change| filters.announce_remaining(1, on_change));
                } else if step == 1 || counts[n] > 0 {
                    counts[n] += if step == 1 { 1 } else { -1 };
                    pair.change(keys[n], step == 1);
                }
                let covered = |key: &str| {
                    pair.remote.contains(&*announced_key(key))
                        || pair.remote.contains(&*literal_key(path(key).unwrap().filter))
                };
                for (key, count) in keys.iter().zip(counts) {
                    prop_assert!(count == 0 || covered(key));
                }
                for (_, subscriptions) in &pair.filters.by_filter {
                    let bytes: usize = subscriptions.conditions.keys().map(|key| key.len()).sum();
                    let computed = subscriptions.conditions.values().filter(|condition| condition.is_computed).count();
                    prop_assert_eq!((subscriptions.bytes, subscriptions.computed), (bytes, computed));
                }
            }
            pair.announce_remaining();
            for (n, key) in keys.iter().enumerate() {
                (0..counts[n]).for_each(|_| pair.change(key, false));
            }
            prop_assert!(pair.remote.is_empty() && pair.filters.by_filter.is_empty());
        }
    }
}
