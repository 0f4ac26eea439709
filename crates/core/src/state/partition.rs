//! The state of a partitioned stage (2002 §3.4): in parts, each with one processor that may touch it.
//!
//! Who that is says one table for all processors. It is read without order (an old entry sends an
//! invocation to a processor that sends it on) and written only by the processor that has just become
//! the owner; so who finds a part in its own entry is the owner, whatever the table says.
//! [`crate::handle::migration`] is how a part changes its owner.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::task::Waker;

use crate::panic::catch_panic;
use crate::state::rebuildable::Rebuildable;

/// Which processor owns each partition.
pub(crate) struct Table(Box<[AtomicU16]>);

impl Table {
    /// Dealt out in turn.
    pub(crate) fn new(count: usize, processors: usize) -> Self {
        Self((0..count).map(|partition| AtomicU16::new((partition % processors) as u16)).collect())
    }

    #[inline]
    pub(crate) fn owner(&self, partition: usize) -> usize {
        self.0[partition].load(Relaxed).into()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// One partition's state on the processor that owns it.
struct Home<S> {
    state: Rebuildable<S>,
    /// Whether it is about to move: no operation enters any more.
    closed: Cell<bool>,
    /// Woken when the last operation that had entered is gone.
    drained: RefCell<Option<Waker>>,
}

/// The state of one partition, as an operation on it sees it. It stays on its processor, and while
/// it is there the partition does, too.
pub struct Partition<S> {
    home: Rc<Home<S>>,
    index: usize,
}

impl<S> Partition<S> {
    /// Runs `f` with the state. Operations of other requests run between two calls, so hold nothing
    /// over that must not change meanwhile.
    ///
    /// # Panics
    /// If called again from within `f`.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        self.home.state.with(f)
    }

    /// The partition's number.
    pub fn index(&self) -> usize {
        self.index
    }

    #[cold]
    fn released(&self) {
        // This one and the entry's.
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

/// One partition as one processor sees it.
struct Entry<S> {
    /// Here, if this processor is its owner.
    home: RefCell<Option<Rc<Home<S>>>>,
    /// Hand-overs whose receiver has not yet answered.
    leaving: Cell<u32>,
    /// Operations that wait until a move is over, in order.
    waiting: RefCell<Vec<Waker>>,
    /// Times that they were woken.
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

/// Why a partition is not closed.
pub(crate) enum Refusal {
    NotHere,
    Moving,
}

/// The partitions of one stage, as one processor sees them.
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

    /// The partition of a key: the high bits of a multiplicative hash, so that keys which are
    /// numbers in a row, or hashes themselves, spread alike.
    #[inline]
    pub(crate) fn of_key(&self, key: u64) -> usize {
        spread(key, self.table.count())
    }

    /// The partition's state, if it is here and not about to move.
    #[inline]
    pub(crate) fn enter(&self, index: usize) -> Option<Partition<S>> {
        match &*self.entries[index].home.borrow() {
            Some(home) if !home.closed.get() => Some(Partition { home: home.clone(), index }),
            _ => None,
        }
    }

    /// Runs `f` with the partition's state, if it is here and not about to move.
    #[inline(always)]
    pub(crate) fn try_with_local<R>(&self, index: usize, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        match &*self.entries[index].home.borrow() {
            Some(home) if !home.closed.get() => Some(home.state.with(f)),
            _ => None,
        }
    }

    /// Whether a move from here is under way.
    pub(crate) fn is_moving(&self, index: usize) -> bool {
        let entry = &self.entries[index];
        entry.leaving.get() > 0 || entry.home.borrow().is_some()
    }

    /// Has `waker` woken when the move is over; once, for one `round`.
    pub(crate) fn wait(&self, index: usize, round: &mut u32, waker: Waker) {
        let entry = &self.entries[index];
        if std::mem::replace(round, entry.round.get()) != entry.round.get() {
            entry.waiting.borrow_mut().push(waker);
        }
    }

    /// Lets no operation enter any more.
    pub(crate) fn close(&self, index: usize) -> Result<(), Refusal> {
        match &*self.entries[index].home.borrow() {
            Some(home) if home.closed.replace(true) => Err(Refusal::Moving),
            Some(_) => Ok(()),
            None if self.entries[index].leaving.get() > 0 => Err(Refusal::Moving),
            None => Err(Refusal::NotHere),
        }
    }

    /// The move was given up.
    pub(crate) fn reopen(&self, index: usize) {
        if let Some(home) = &*self.entries[index].home.borrow() {
            home.closed.set(false);
            home.drained.take();
        }
        self.entries[index].wake();
    }

    /// Whether all that had entered are gone; if not, `waker` is woken by the last.
    pub(crate) fn is_drained(&self, index: usize, waker: Waker) -> bool {
        // Lent to `try_with_local` further out on this stack: not drained either.
        let Ok(home) = self.entries[index].home.try_borrow_mut() else { return false };
        let Some(home) = &*home else { return false };
        let drained = Rc::strong_count(home) == 1;
        if !drained {
            home.drained.replace(Some(waker));
        }
        drained
    }

    /// Gives the state of a closed and drained partition away.
    pub(crate) fn take(&self, index: usize) -> Rebuildable<S> {
        let entry = &self.entries[index];
        entry.leaving.set(entry.leaving.get() + 1);
        let home = entry.home.take().and_then(Rc::into_inner).expect("closed and drained");
        home.state
    }

    /// This processor is the owner from now on.
    pub(crate) fn install(&self, index: usize, state: Rebuildable<S>) {
        let before = self.entries[index].home.replace(Some(Home::new(state)));
        assert!(before.is_none(), "a partition has one owner");
        self.table.0[index].store(self.processor as u16, Relaxed);
    }

    /// The new owner has it.
    pub(crate) fn left(&self, index: usize) {
        let entry = &self.entries[index];
        entry.leaving.set(entry.leaving.get() - 1);
        entry.wake();
    }
}

impl<S> Drop for Partitions<S> {
    /// One by one, since the destructor of each state is foreign: of two that panic within one drop the
    /// second would abort the process.
    fn drop(&mut self) {
        for entry in &mut self.entries {
            let home = entry.home.get_mut().take();
            catch_panic(|| drop(home));
        }
    }
}

/// One of `count` for each key.
#[inline]
pub(crate) fn spread(key: u64, count: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * count as u128) >> 64) as usize
}
