//! A map that is a list until it has more than a few entries.

use std::borrow::Borrow;
use std::hash::Hash;

use foldhash::fast::RandomState;
use indexmap::IndexMap;

/// Maximum number of entries in a list. A table becomes a list again with half as many.
const MAX_LISTED: usize = 8;

/// A map for collections that usually have one entry, of which there are as many as there are clients. A hash table or a
/// B-tree with one entry takes several times the memory of a list.
///
/// The iteration order depends only on insertions and removals, which makes simulations deterministic.
pub(crate) enum FewMap<K, V> {
    List(Vec<(K, V)>),
    Table(Box<IndexMap<K, V, RandomState>>),
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<K: Eq + Hash, V> FewMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Table(table) => table.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries. Internal iteration, as by `for_each`, is faster than a loop.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (list, table) = match self {
            Self::List(list) => (&**list, None),
            Self::Table(table) => (&[][..], Some(table)),
        };
        let table = table.into_iter().flat_map(|table| table.iter());
        list.iter().map(|(key, value)| (key, value)).chain(table)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        let (list, table) = match self {
            Self::List(list) => (list, None),
            Self::Table(table) => (Vec::new(), Some(*table)),
        };
        list.into_iter().chain(table.into_iter().flatten())
    }

    #[inline]
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::List(list) => {
                list.iter().find(|(existing, _)| existing.borrow() == key).map(|(_, value)| value)
            }
            Self::Table(table) => table.get(key),
        }
    }

    pub(crate) fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Adds an entry, or replaces the value of an existing one and returns the old value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let list = match self {
            Self::List(list) => list,
            Self::Table(table) => return table.insert(key, value),
        };
        if let Some((_, existing)) = list.iter_mut().find(|(existing, _)| *existing == key) {
            return Some(std::mem::replace(existing, value));
        }
        if list.len() < MAX_LISTED {
            // Exactly, because most lists stay at this length.
            list.reserve_exact(1);
            list.push((key, value));
        } else {
            let mut table: IndexMap<_, _, _> = list.drain(..).collect();
            table.insert(key, value);
            *self = Self::Table(Box::new(table));
        }
        None
    }

    /// Removes an entry. The last one takes its place.
    pub(crate) fn swap_remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::List(list) => {
                let at = list.iter().position(|(existing, _)| existing.borrow() == key)?;
                let (_, value) = list.swap_remove(at);
                if list.is_empty() {
                    *list = Vec::new();
                }
                Some(value)
            }
            Self::Table(table) => {
                let value = table.swap_remove(key);
                if table.len() <= MAX_LISTED / 2 {
                    let list: Vec<_> = table.drain(..).collect();
                    *self = Self::List(list);
                } else if table.len() < table.capacity() / 4 {
                    table.shrink_to(table.len() * 2);
                }
                value
            }
        }
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for FewMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A list and a table have the same contents in the same order as an index map.
        #[test]
        fn it_is_an_index_map(steps in proptest::collection::vec((any::<bool>(), 0u8..24), 0..200)) {
            let (mut map, mut expected) = (FewMap::default(), IndexMap::new());
            for (n, (adds, key)) in steps.into_iter().enumerate() {
                match adds {
                    true => prop_assert_eq!(map.insert(key, n), expected.insert(key, n)),
                    false => prop_assert_eq!(map.swap_remove(&key), expected.swap_remove(&key)),
                }
                prop_assert!(map.iter().eq(expected.iter()));
                prop_assert_eq!((map.len(), map.get(&key)), (expected.len(), expected.get(&key)));
            }
            prop_assert!(map.into_entries().eq(expected));
        }
    }

    #[test]
    fn an_entry_takes_little_memory() {
        let mut map = FewMap::default();
        map.insert(1, 1);
        assert!(matches!(&map, FewMap::List(list) if list.capacity() == 1));
        assert_eq!(size_of_val(&map), 3 * size_of::<usize>());
    }
}
