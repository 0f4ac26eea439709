//! A hash table that takes one word until its first entry is added.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Maximum capacity that an empty table keeps for further entries.
const IDLE_CAPACITY: usize = 64;

/// A hash table for state that most sessions do not have. It is allocated for the first entry, and freed with the last
/// one if it is large.
#[expect(clippy::box_collection, reason = "most are empty, and then take one word instead of four")]
pub(crate) struct SmallMap<K, V>(Option<Box<HashMap<K, V, RandomState>>>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Eq + Hash, V> SmallMap<K, V> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |map| map.len())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().flat_map(|map| map.iter())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    #[inline]
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.as_ref()?.get(key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.as_mut()?.get_mut(key)
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.table().insert(key, value)
    }

    pub(crate) fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        self.table().entry(key)
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Removes an entry if its value satisfies `condition`.
    #[inline]
    pub(crate) fn remove_if(&mut self, key: K, condition: impl FnOnce(&V) -> bool) -> Option<V> {
        let map = self.0.as_mut()?;
        // Not by `entry`, which reserves space for a key that is missing.
        let value = map.remove(&key)?;
        if !condition(&value) {
            map.insert(key, value);
            return None;
        }
        if map.is_empty() && map.capacity() > IDLE_CAPACITY {
            self.0 = None;
        }
        Some(value)
    }

    fn table(&mut self) -> &mut HashMap<K, V, RandomState> {
        self.0.get_or_insert_default()
    }
}

impl<K: Eq + Hash, V> Extend<(K, V)> for SmallMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_takes_one_word() {
        let mut map = SmallMap::default();
        assert_eq!((size_of_val(&map), map.get(&1)), (size_of::<usize>(), None));
        assert_eq!(map.remove(1), None);
        map.extend((0..1000).map(|n| (n, n)));
        assert_eq!((map.len(), map.get(&7)), (1000, Some(&7)));
        for n in 0..1000 {
            assert_eq!(map.remove(n), Some(n));
        }
        assert!(map.is_empty() && map.0.is_none(), "the memory is freed");
        map.insert(1, 1);
        assert_eq!(map.remove_if(1, |value| *value == 2), None);
        map.remove(1);
        assert!(map.0.is_some(), "a small table is kept");
    }
}
