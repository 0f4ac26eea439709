//! One processor's replicas of values that other processors publish: a set-associative table of fixed size.
//!
//! A replica is a reference to the shared value. References on one processor are counted in plain cells, so a lookup
//! writes no cache line that another processor writes.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::processor::policy::replication::holders::Holders;
use crate::state::partition::spread;

/// Replicas per set: their keys fill one cache line.
const WAYS: usize = 8;

/// A published value.
pub(crate) struct Origin<V> {
    pub(crate) holders: Holders,
    pub(crate) key: u64,
    pub(crate) value: V,
}

/// One processor's reference to a value published by a [`ReplicatedStage`](crate::ReplicatedStage). Clones are counted
/// on this processor, without atomic operations.
#[expect(
    clippy::redundant_allocation,
    reason = "the outer count is written only by this processor"
)]
pub struct Replica<V>(Rc<Arc<Origin<V>>>);

impl<V> Replica<V> {
    pub(crate) fn new(origin: Arc<Origin<V>>) -> Self {
        Self(Rc::new(origin))
    }

    pub(crate) fn origin(&self) -> &Arc<Origin<V>> {
        &self.0
    }
}

impl<V> Deref for Replica<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.0.value
    }
}

impl<V> Clone for Replica<V> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The replicas whose keys select this set.
struct Set<V> {
    keys: [u64; WAYS],
    values: [Option<Replica<V>>; WAYS],
    /// One bit per replica, set if a lookup has found the replica since the hand passed it.
    used: Cell<u8>,
    /// The next replica to consider for eviction (the clock algorithm).
    hand: u8,
}

impl<V> Set<V> {
    fn new() -> Self {
        Self { keys: [0; WAYS], values: [const { None }; WAYS], used: Cell::new(0), hand: 0 }
    }

    fn find(&self, key: u64) -> Option<usize> {
        (0..WAYS).find(|way| self.keys[*way] == key && self.values[*way].is_some())
    }

    /// The position for a new replica.
    fn place(&mut self, key: u64) -> usize {
        let free = || self.values.iter().position(Option::is_none);
        if let Some(way) = self.find(key).or_else(free) {
            return way;
        }
        loop {
            let (way, bit) = (usize::from(self.hand), 1 << self.hand);
            self.hand = (self.hand + 1) % WAYS as u8;
            let used = self.used.get();
            if used & bit == 0 {
                return way;
            }
            self.used.set(used & !bit);
        }
    }
}

/// One processor's replicas.
pub struct Replicas<V> {
    processor: usize,
    /// The number of sets.
    count: usize,
    /// Empty until the first replica is stored.
    sets: RefCell<Box<[Set<V>]>>,
    stored: Cell<usize>,
}

impl<V> Replicas<V> {
    /// A table of at least `entries` replicas, rounded up to whole sets.
    pub(crate) fn new(entries: usize, processor: usize) -> Self {
        let count = entries.div_ceil(WAYS);
        Self { processor, count, sets: RefCell::default(), stored: Cell::new(0) }
    }

    fn set(&self, key: u64) -> usize {
        // Uses other bits than those that select a partition; otherwise the keys of one partition would share few sets.
        spread(key.rotate_left(32), self.count)
    }

    /// The replica with this key, unless its value was revoked.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<Replica<V>> {
        let sets = self.sets.borrow();
        let set = sets.get(self.set(key))?;
        let way = set.find(key)?;
        let replica = set.values[way].as_ref()?;
        if replica.0.holders.is_revoked(self.processor) {
            return None;
        }
        set.used.set(set.used.get() | 1 << way);
        Some(replica.clone())
    }

    /// Stores a replica, and evicts another one if its set is full. A revoked value is not stored.
    pub(crate) fn insert(&self, origin: Arc<Origin<V>>) -> Replica<V> {
        let key = origin.key;
        let known = self.get(key).filter(|replica| Arc::ptr_eq(&replica.0, &origin));
        if let Some(known) = known {
            return known;
        }
        let replica = Replica::new(origin);
        if !replica.0.holders.add(self.processor) {
            return replica;
        }
        let mut sets = self.sets.borrow_mut();
        if sets.is_empty() {
            *sets = (0..self.count).map(|_| Set::new()).collect();
        }
        let set = &mut sets[self.set(key)];
        let way = set.place(key);
        set.keys[way] = key;
        set.used.set(set.used.get() & !(1 << way));
        let evicted = set.values[way].replace(replica.clone());
        // The value's destructor is foreign code, so the borrow of the table ends first.
        drop(sets);
        match evicted {
            Some(evicted) => evicted.0.holders.remove(self.processor),
            None => self.stored.set(self.stored.get() + 1),
        }
        replica
    }

    /// Drops the replica of a revoked value.
    pub(crate) fn remove(&self, origin: &Arc<Origin<V>>) {
        let mut sets = self.sets.borrow_mut();
        let at = self.set(origin.key);
        let Some(set) = sets.get_mut(at) else { return };
        let same = |replica: &Replica<V>| Arc::ptr_eq(&replica.0, origin);
        let way = set.values.iter().position(|value| value.as_ref().is_some_and(same));
        let removed = way.and_then(|way| set.values[way].take());
        drop(sets);
        if removed.is_some() {
            self.stored.set(self.stored.get() - 1);
        }
    }

    /// The bytes of the table and of its references, without the values, which all processors share.
    pub(crate) fn bytes(&self) -> usize {
        let reference = size_of::<[usize; 2]>() + size_of::<Arc<Origin<V>>>();
        self.sets.borrow().len() * size_of::<Set<V>>() + self.stored.get() * reference
    }
}
