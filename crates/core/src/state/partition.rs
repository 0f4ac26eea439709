//! The state of a partitioned stage (2002 §3.4): each partition has one owner, the only processor that
//! accesses it.
//!
//! A table shared by all processors stores the owners. Processors read it with relaxed ordering: a stale entry sends an
//! invocation to a processor that forwards it. Only a processor that has just become the owner writes an entry. A
//! processor that finds a partition's state in its own entries is the owner, whatever the table contains.
//! [`crate::handle::policy::moving::move_partition`] moves partitions between owners, and
//! [`crate::handle::policy::moving::take_over`] takes them over from sleeping owners.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU16};
use std::task::Waker;

use crate::panic::catch_panic;
use crate::state::owned::OwnedRef;
use crate::state::policy::take_over::TakeOver;
use crate::state::rebuildable::Rebuildable;

/// The owner of each partition.
pub(crate) struct Table {
    pub(super) owners: Box<[AtomicU16]>,
    /// The number of processors that own partitions initially.
    pub(super) first_owners: usize,
    /// The [`Partitions`] of each processor, which other processors [visit](crate::mailbox::visit).
    pub(super) views: Box<[AtomicPtr<()>]>,
}

impl Table {
    /// Assigns the partitions to the first `owners` of `processors` round-robin.
    pub(crate) fn new(count: usize, owners: usize, processors: usize) -> Self {
        let owner = |partition| AtomicU16::new((partition % owners) as u16);
        Self {
            owners: (0..count).map(owner).collect(),
            first_owners: owners,
            views: (0..processors).map(|_| AtomicPtr::default()).collect(),
        }
    }

    #[inline]
    pub(crate) fn owner(&self, partition: usize) -> usize {
        self.owners[partition].load(Relaxed).into()
    }

    pub(crate) fn count(&self) -> usize {
        self.owners.len()
    }
}

/// The access of an operation to the state of its partition. It cannot leave its processor, and the partition does not
/// move while it exists.
pub struct Partition<S> {
    pub(super) owned: OwnedRef<S>,
    index: usize,
}

impl<S> Partition<S> {
    /// Runs `f` with the state. Other operations may run between two calls of `with`, so the state may change in
    /// between.
    ///
    /// # Panics
    /// If called from within `f`. A panic in `f` propagates.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        self.owned.state.with(f)
    }

    /// The index of the partition, counted from zero.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl<S> Clone for Partition<S> {
    fn clone(&self) -> Self {
        Self { owned: self.owned.clone(), index: self.index }
    }
}

impl<S> Drop for Partition<S> {
    #[inline]
    fn drop(&mut self) {
        if self.owned.closed.get() {
            self.released();
        }
    }
}

/// One processor's view of a partition.
pub(super) struct PartitionView<S> {
    /// The state, if this processor owns the partition.
    pub(super) owned: RefCell<Option<OwnedRef<S>>>,
    /// The number of moves that the new owner has not yet confirmed.
    pub(super) departures: Cell<u32>,
    /// Operations that wait for a move to end, in order.
    pub(super) waiting: RefCell<Vec<Waker>>,
    /// The number of times that the waiting operations were woken.
    pub(super) round: Cell<u32>,
}

impl<S> PartitionView<S> {
    fn new(state: Option<Rebuildable<S>>) -> Self {
        Self {
            owned: RefCell::new(state.map(OwnedRef::new)),
            departures: Cell::new(0),
            waiting: RefCell::default(),
            round: Cell::new(1),
        }
    }
}

/// One processor's view of the partitions of a stage.
pub(crate) struct Partitions<S> {
    pub(super) table: Arc<Table>,
    pub(super) processor: usize,
    pub(super) entries: Box<[PartitionView<S>]>,
    /// Takes a partition over from a sleeping owner, if the stage permits it.
    pub(super) take_over: Option<TakeOver<S>>,
}

impl<S> Partitions<S> {
    pub(crate) fn new(
        table: Arc<Table>,
        processor: usize,
        make: &dyn Fn(usize) -> Rebuildable<S>,
        take_over: Option<TakeOver<S>>,
    ) -> Rc<Self> {
        let entry = |partition| {
            PartitionView::new((table.owner(partition) == processor).then(|| make(partition)))
        };
        let entries = (0..table.count()).map(entry).collect();
        let own = Rc::new(Self { entries, table, processor, take_over });
        own.table.views[processor].store(Rc::as_ptr(&own).cast_mut().cast(), Release);
        own
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The partition of a key, which is computed from the high bits of a multiplicative hash. This distributes
    /// consecutive numbers as well as hashes.
    #[inline]
    pub(crate) fn of_key(&self, key: u64) -> usize {
        spread(key, self.table.count())
    }

    /// The partition's state, if it is here and no move is pending.
    #[inline]
    pub(crate) fn access(&self, index: usize) -> Option<Partition<S>> {
        match &*self.entries[index].owned.borrow() {
            Some(owned) if !owned.closed.get() => Some(Partition { owned: owned.clone(), index }),
            _ => None,
        }
    }

    /// Runs `f` with the partition's state, if it is here and no move is pending.
    #[inline(always)]
    pub(crate) fn try_with_local<R>(&self, index: usize, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        match &*self.entries[index].owned.borrow() {
            Some(owned) if !owned.closed.get() => Some(owned.state.with(f)),
            _ => None,
        }
    }
}

impl<S> Drop for Partitions<S> {
    /// Drops the states one by one, because their destructors are foreign code and two panics within one drop would
    /// abort the process.
    fn drop(&mut self) {
        for entry in &mut self.entries {
            let owned = entry.owned.get_mut().take();
            catch_panic(|| drop(owned));
        }
    }
}

/// Maps a key to one of `count` values.
#[inline]
pub(crate) fn spread(key: u64, count: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * count as u128) >> 64) as usize
}
