//! The state of a partitioned stage (2002 §3.4): each partition has one owner, the only processor that
//! accesses it.
//!
//! A table shared by all processors stores the owners. Processors read it without ordering: a stale
//! entry sends an invocation to a processor that forwards it. Only a processor that has just become the
//! owner writes an entry. A processor that finds a partition among its own entries is the owner,
//! whatever the table contains. [`crate::handle::policy::migration`] moves partitions between owners.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::task::Waker;

use crate::panic::catch_panic;
use crate::state::rebuildable::Rebuildable;

/// The owner of each partition.
pub(crate) struct Table(Box<[AtomicU16]>);

impl Table {
    /// Assigns the partitions to the first `owners` processors round-robin.
    pub(crate) fn new(count: usize, owners: usize) -> Self {
        Self((0..count).map(|partition| AtomicU16::new((partition % owners) as u16)).collect())
    }

    #[inline]
    pub(crate) fn owner(&self, partition: usize) -> usize {
        self.0[partition].load(Relaxed).into()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Owned partition: the state of a partition on its owner.
struct Home<S> {
    state: Rebuildable<S>,
    /// Whether a move is pending: no operation may enter.
    closed: Cell<bool>,
    /// Woken when the last operation inside has left.
    drained: RefCell<Option<Waker>>,
}

/// The state of one partition as its operations access it. The value stays on its processor, and the
/// partition does not move while it exists.
pub struct Partition<S> {
    home: Rc<Home<S>>,
    index: usize,
}

impl<S> Partition<S> {
    /// Runs `f` with the state. Operations of other requests may run between two calls, so do not rely
    /// on the state staying unchanged between them.
    ///
    /// # Panics
    /// If called again from within `f`. A panic of `f` propagates.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        self.home.state.with(f)
    }

    /// The index of the partition, from zero.
    pub fn index(&self) -> usize {
        self.index
    }

    #[cold]
    fn released(&self) {
        // This reference and that of the entry.
        if Rc::strong_count(&self.home) == 2
            && let Some(waker) = self.home.drained.take()
        {
            catch_panic(|| waker.wake());
        }
    }
}

impl<S> Clone for Partition<S> {
    fn clone(&self) -> Self {
        Self { home: self.home.clone(), index: self.index }
    }
}

impl<S> Drop for Partition<S> {
    #[inline]
    fn drop(&mut self) {
        if self.home.closed.get() {
            self.released();
        }
    }
}

/// One processor's view of a partition.
struct Entry<S> {
    /// The owned partition, if this processor is the owner.
    home: RefCell<Option<Rc<Home<S>>>>,
    /// Moves that the new owner has not yet confirmed.
    leaving: Cell<u32>,
    /// Operations that wait for a move to end, in order.
    waiting: RefCell<Vec<Waker>>,
    /// The number of times that they were woken.
    round: Cell<u32>,
}

impl<S> Entry<S> {
    fn new(state: Option<Rebuildable<S>>) -> Self {
        Self {
            home: RefCell::new(state.map(Home::new)),
            leaving: Cell::new(0),
            waiting: RefCell::default(),
            round: Cell::new(1),
        }
    }

    fn wake(&self) {
        self.round.set(self.round.get().wrapping_add(1));
        self.waiting.take().into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }
}

impl<S> Home<S> {
    fn new(state: Rebuildable<S>) -> Rc<Self> {
        Rc::new(Self { state, closed: Cell::new(false), drained: RefCell::default() })
    }
}

/// Why a partition could not be closed.
pub(crate) enum Refusal {
    NotHere,
    Moving,
}

/// One processor's view of the partitions of a stage.
pub(crate) struct Partitions<S> {
    table: Arc<Table>,
    processor: usize,
    entries: Box<[Entry<S>]>,
}

impl<S> Partitions<S> {
    pub(crate) fn new(
        table: Arc<Table>,
        processor: usize,
        make: &dyn Fn(usize) -> Rebuildable<S>,
    ) -> Self {
        let entry =
            |partition| Entry::new((table.owner(partition) == processor).then(|| make(partition)));
        Self { entries: (0..table.count()).map(entry).collect(), table, processor }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The partition of a key: the high bits of a multiplicative hash, so that consecutive numbers and
    /// hashes spread equally well.
    #[inline]
    pub(crate) fn of_key(&self, key: u64) -> usize {
        spread(key, self.table.count())
    }

    /// Returns the partition's state, if it is here and no move is pending.
    #[inline]
    pub(crate) fn enter(&self, index: usize) -> Option<Partition<S>> {
        match &*self.entries[index].home.borrow() {
            Some(home) if !home.closed.get() => Some(Partition { home: home.clone(), index }),
            _ => None,
        }
    }

    /// Runs `f` with the partition's state, if it is here and no move is pending.
    #[inline(always)]
    pub(crate) fn try_with_local<R>(&self, index: usize, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        match &*self.entries[index].home.borrow() {
            Some(home) if !home.closed.get() => Some(home.state.with(f)),
            _ => None,
        }
    }

    /// Whether a move from this processor is in progress.
    pub(crate) fn is_moving(&self, index: usize) -> bool {
        let entry = &self.entries[index];
        entry.leaving.get() > 0 || entry.home.borrow().is_some()
    }

    /// Registers `waker` to be woken when the move ends, once per `round`.
    pub(crate) fn wait(&self, index: usize, round: &mut u32, waker: Waker) {
        let entry = &self.entries[index];
        if std::mem::replace(round, entry.round.get()) != entry.round.get() {
            entry.waiting.borrow_mut().push(waker);
        }
    }

    /// Closes the partition to further operations.
    pub(crate) fn close(&self, index: usize) -> Result<(), Refusal> {
        match &*self.entries[index].home.borrow() {
            Some(home) if home.closed.replace(true) => Err(Refusal::Moving),
            Some(_) => Ok(()),
            None if self.entries[index].leaving.get() > 0 => Err(Refusal::Moving),
            None => Err(Refusal::NotHere),
        }
    }

    /// Reopens the partition after an abandoned move.
    pub(crate) fn reopen(&self, index: usize) {
        if let Some(home) = &*self.entries[index].home.borrow() {
            home.closed.set(false);
            home.drained.take();
        }
        self.entries[index].wake();
    }

    /// Whether all operations inside have left. If not, the last one to leave wakes `waker`.
    pub(crate) fn is_drained(&self, index: usize, waker: Waker) -> bool {
        // Borrowed by `try_with_local` further up this stack: not drained either.
        let Ok(home) = self.entries[index].home.try_borrow_mut() else { return false };
        let Some(home) = &*home else { return false };
        let drained = Rc::strong_count(home) == 1;
        if !drained {
            home.drained.replace(Some(waker));
        }
        drained
    }

    /// Takes the state out of a closed and drained partition.
    pub(crate) fn take(&self, index: usize) -> Rebuildable<S> {
        let entry = &self.entries[index];
        entry.leaving.set(entry.leaving.get() + 1);
        let home = entry.home.take().and_then(Rc::into_inner).expect("closed and drained");
        home.state
    }

    /// Installs the state: this processor is now the owner.
    pub(crate) fn install(&self, index: usize, state: Rebuildable<S>) {
        let before = self.entries[index].home.replace(Some(Home::new(state)));
        assert!(before.is_none(), "a partition has one owner");
        self.table.0[index].store(self.processor as u16, Relaxed);
    }

    /// Records that the new owner has installed the state.
    pub(crate) fn left(&self, index: usize) {
        let entry = &self.entries[index];
        entry.leaving.set(entry.leaving.get() - 1);
        entry.wake();
    }
}

impl<S> Drop for Partitions<S> {
    /// Drops the states one by one, since their destructors are foreign: two panics within one drop
    /// would abort the process.
    fn drop(&mut self) {
        for entry in &mut self.entries {
            let home = entry.home.get_mut().take();
            catch_panic(|| drop(home));
        }
    }
}

/// Maps a key to one of `count` values.
#[inline]
pub(crate) fn spread(key: u64, count: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * count as u128) >> 64) as usize
}
