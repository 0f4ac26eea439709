//! Which filters this node announces to the others.
//!
//! A node has to get every message that one of its clients may want, so the announced filters cover all subscriptions.
//! Conditions are announced as long as a topic filter has few of them; otherwise the topic filter is announced without
//! them, and this node alone decides. Shared subscriptions are always announced with their groups.

use indexmap::IndexMap;

use crate::content::path::{has_content, literal_key, path};

/// Maximum number of conditions of one topic filter that are announced.
const MAX_CONDITIONS: usize = 64;

/// Separates the parts of a key whose condition is a user property. Such keys are no topic filters.
const KEY_SEPARATOR: char = '\0';

/// The subscriptions of this node's clients. Iterated in an order that a simulation repeats.
#[derive(Default)]
pub(super) struct Filters {
    /// The number of clients of each shared subscription.
    shared: IndexMap<Box<str>, u32>,
    /// By the key of the topic filter without a condition.
    own: IndexMap<Box<str>, Own>,
}

/// The subscriptions to one topic filter.
#[derive(Default)]
struct Own {
    /// Those without a condition.
    plain: u32,
    /// Those with a condition, by key.
    conditions: IndexMap<Box<str>, u32>,
    /// There were too many conditions. Stays until there are none, so that a client that comes and goes changes nothing.
    is_coarse: bool,
}

impl Own {
    fn is_bare(&self) -> bool {
        self.plain > 0 || self.is_coarse
    }
}

impl Filters {
    /// Adds a client's subscription. Passes the changes of the announced filters to `tell`.
    pub(super) fn add(&mut self, key: &str, mut tell: impl FnMut(&str, bool)) {
        let Some(path) = path(key).filter(|path| is_announced(path.filter)) else { return };
        if path.group.is_some() {
            let count = self.shared.entry(key.into()).or_default();
            *count += 1;
            if *count == 1 {
                tell(key, true);
            }
            return;
        }
        let bare = literal_key(path.filter);
        let own = self.own.entry((&*bare).into()).or_default();
        let was_bare = own.is_bare();
        if !has_content(key) {
            own.plain += 1;
        } else {
            let count = own.conditions.entry(key.into()).or_default();
            *count += 1;
            let is_new = *count == 1;
            own.is_coarse |= own.conditions.len() > MAX_CONDITIONS || key.contains(KEY_SEPARATOR);
            if is_new && !own.is_bare() {
                tell(key, true);
            }
        }
        if own.is_bare() && !was_bare {
            tell(&bare, true);
            // The new one was not announced.
            own.conditions.keys().filter(|own| ***own != *key).for_each(|own| tell(own, false));
        }
    }

    /// Removes a client's subscription.
    pub(super) fn remove(&mut self, key: &str, mut tell: impl FnMut(&str, bool)) {
        let Some(path) = path(key).filter(|path| is_announced(path.filter)) else { return };
        if path.group.is_some() {
            if decrement(&mut self.shared, key) {
                tell(key, false);
            }
            return;
        }
        let bare = literal_key(path.filter);
        let Some(own) = self.own.get_mut(&*bare) else { return };
        let was_bare = own.is_bare();
        if !has_content(key) {
            own.plain = own.plain.saturating_sub(1);
        } else {
            let is_gone = decrement(&mut own.conditions, key);
            own.is_coarse &= !own.conditions.is_empty();
            if is_gone && !was_bare {
                tell(key, false);
            }
        }
        if was_bare && !own.is_bare() {
            own.conditions.keys().for_each(|own| tell(own, true));
            tell(&bare, false);
        }
        if own.plain == 0 && own.conditions.is_empty() {
            self.own.swap_remove(&*bare);
        }
    }

    /// Everything that is announced.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        let own = self.own.iter().flat_map(|(filter, own)| {
            let is_bare = own.is_bare();
            let conditions = own.conditions.keys().filter(move |_| !is_bare);
            is_bare.then_some(filter).into_iter().chain(conditions)
        });
        self.shared.keys().chain(own).map(|key| &**key)
    }
}

/// Whether other nodes can have messages for this topic filter: `$SYS` belongs to each node.
fn is_announced(filter: &str) -> bool {
    filter != "$SYS" && !filter.starts_with("$SYS/")
}

/// Decrements a count. Returns whether it was the last, and is removed.
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

    /// Applies changes as another node does.
    #[derive(Default)]
    struct Pair {
        filters: Filters,
        there: BTreeSet<String>,
    }

    impl Pair {
        fn change(&mut self, key: &str, is_added: bool) {
            let there = &mut self.there;
            let tell = |key: &str, is: bool| match is {
                true => assert!(there.insert(key.into()), "{key} is there already"),
                false => assert!(there.remove(key), "{key} is not there"),
            };
            match is_added {
                true => self.filters.add(key, tell),
                false => self.filters.remove(key, tell),
            }
            let all: BTreeSet<_> = self.filters.all().map(str::to_owned).collect();
            assert_eq!(all, self.there);
        }
    }

    #[test]
    fn conditions_are_announced_while_they_are_few() {
        let (mut pair, key) = (Pair::default(), |n: usize| format!("$where/a = {n}/t"));
        (0..MAX_CONDITIONS).for_each(|n| pair.change(&key(n), true));
        assert_eq!(pair.there.len(), MAX_CONDITIONS);
        pair.change(&key(MAX_CONDITIONS), true);
        assert_eq!(Vec::from_iter(&pair.there), ["t"]);
        (1..=MAX_CONDITIONS).for_each(|n| pair.change(&key(n), false));
        assert_eq!(Vec::from_iter(&pair.there), ["t"]);
        pair.change(&key(0), false);
        pair.change("t", true);
        pair.change(&key(0), true);
        pair.change("t\0\0a = 1", true);
        pair.change("$SYS/#", true);
        pair.change("$share/g/$where/a = 1/t", true);
        assert_eq!(Vec::from_iter(&pair.there), ["$share/g/$where/a = 1/t", "t"]);
        for key in ["t", &key(0), "t\0\0a = 1", "$SYS/#", "$share/g/$where/a = 1/t"] {
            pair.change(key, false);
        }
        assert!(pair.there.is_empty() && pair.filters.own.is_empty());
    }

    proptest! {
        #[test]
        fn announced_filters_follow_the_subscriptions(
            steps in prop::collection::vec((0..7usize, any::<bool>()), 0..60),
        ) {
            let keys = [
                "a", "$where/x = 1/a", "$where/x = 2/a", "a\0\0x = 1", "$share/g/a", "b/#", "a?x\0$literal",
            ];
            let (mut pair, mut counts) = (Pair::default(), [0; 7]);
            for (n, is_added) in steps {
                if is_added || counts[n] > 0 {
                    counts[n] += if is_added { 1 } else { -1 };
                    pair.change(keys[n], is_added);
                }
                let covered = |key: &str| {
                    pair.there.contains(key)
                        || pair.there.contains(&*literal_key(path(key).unwrap().filter))
                };
                for (key, count) in keys.iter().zip(counts) {
                    prop_assert!(count == 0 || covered(key));
                }
            }
        }
    }
}
