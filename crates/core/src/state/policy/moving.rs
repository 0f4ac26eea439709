//! The steps of a partition's move, on the old and on the new owner
//! ([`crate::handle::policy::moving::move_partition`]).

use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use crate::panic::catch_panic;
use crate::state::owned::OwnedRef;
use crate::state::partition::{Partition, PartitionView, Partitions};
use crate::state::rebuildable::Rebuildable;

/// The reason why a partition could not be closed.
pub(crate) enum CloseError {
    NotOwner,
    Moving,
}

impl<S> PartitionView<S> {
    fn wake(&self) {
        self.round.set(self.round.get().wrapping_add(1));
        self.waiting.take().into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }
}

impl<S> Partition<S> {
    /// Wakes the move that waits for the last operation to leave, if this is the last one.
    #[cold]
    pub(in crate::state) fn released(&self) {
        // Two references are left: this one and that of the entry.
        if self.owned.count() == 2
            && let Some(waker) = self.owned.drained.take()
        {
            catch_panic(|| waker.wake());
        }
    }
}

impl<S> Partitions<S> {
    /// Whether an operation that cannot enter must wait here. It must if the state is here, or if it has left and the
    /// new owner has not confirmed that.
    pub(crate) fn must_wait(&self, index: usize) -> bool {
        let entry = &self.entries[index];
        entry.departures.get() > 0 || entry.owned.borrow().is_some()
    }

    /// Registers `waker` to be woken when the move ends, at most once per `round`.
    pub(crate) fn wait(&self, index: usize, round: &mut u32, waker: Waker) {
        let entry = &self.entries[index];
        if std::mem::replace(round, entry.round.get()) != entry.round.get() {
            entry.waiting.borrow_mut().push(waker);
        }
    }

    /// Closes the partition to further operations.
    pub(crate) fn close(&self, index: usize) -> Result<(), CloseError> {
        match &*self.entries[index].owned.borrow() {
            Some(owned) if owned.closed.replace(true) => Err(CloseError::Moving),
            Some(_) => Ok(()),
            None if self.entries[index].departures.get() > 0 => Err(CloseError::Moving),
            None => Err(CloseError::NotOwner),
        }
    }

    /// Reopens the partition after an abandoned move.
    pub(crate) fn reopen(&self, index: usize) {
        if let Some(owned) = &*self.entries[index].owned.borrow() {
            owned.closed.set(false);
            owned.drained.take();
        }
        self.entries[index].wake();
    }

    /// Whether all operations have left. If not, the last one to leave wakes `waker`.
    pub(crate) fn is_drained(&self, index: usize, waker: Waker) -> bool {
        // A `try_with_local` further up this stack has borrowed the entry, so it is not drained either.
        let Ok(owned) = self.entries[index].owned.try_borrow_mut() else { return false };
        let Some(owned) = &*owned else { return false };
        let drained = owned.count() == 1;
        if !drained {
            owned.drained.replace(Some(waker));
        }
        drained
    }

    /// Takes the state out of a closed and drained partition.
    pub(crate) fn take(&self, index: usize) -> Rebuildable<S> {
        let entry = &self.entries[index];
        entry.departures.set(entry.departures.get() + 1);
        let owned = entry.owned.take().map(OwnedRef::into_state);
        owned.and_then(Result::ok).expect("the partition is closed and drained")
    }

    /// Installs the state, which makes this processor the owner.
    pub(crate) fn install(&self, index: usize, state: Rebuildable<S>) {
        let before = self.entries[index].owned.replace(Some(OwnedRef::new(state)));
        assert!(before.is_none(), "a partition has one owner");
        self.table.owners[index].store(self.processor as u16, Relaxed);
    }

    /// Records that processor `to` has installed the state. If that processor has ended instead, the state is lost, and
    /// the partition belongs to it like its other partitions.
    pub(crate) fn confirm_moved(&self, index: usize, to: usize) {
        let entry = &self.entries[index];
        entry.departures.set(entry.departures.get() - 1);
        if self.table.owner(index) == self.processor && !self.must_wait(index) {
            self.table.owners[index].store(to as u16, Relaxed);
        }
        entry.wake();
    }
}
