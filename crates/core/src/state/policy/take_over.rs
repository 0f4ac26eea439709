//! Partitions that another processor takes over while their owner sleeps
//! ([`crate::handle::policy::moving::take_over`]).

use std::sync::atomic::Ordering::Acquire;

use crate::operation::processor_ref::ProcessorRef;
use crate::state::partition::{Partitions, Table};
use crate::state::rebuildable::Rebuildable;

/// Takes a partition over from another processor if that processor sleeps. Returns whether this processor now owns the
/// partition.
pub(crate) type TakeOver<S> = fn(&Partitions<S>, ProcessorRef<'_>, stage: u8, index: usize) -> bool;

impl Table {
    /// The processor that owned the partition initially.
    pub(crate) fn first_owner(&self, partition: usize) -> usize {
        partition % self.first_owners
    }
}

impl<S> Partitions<S> {
    /// Takes the partition over if its owner sleeps. Returns whether this processor now owns the partition.
    #[inline]
    pub(crate) fn acquire(&self, processor: ProcessorRef<'_>, stage: u8, index: usize) -> bool {
        self.table.owner(index) == self.processor
            || self.take_over.is_some_and(|take_over| take_over(self, processor, stage, index))
    }

    /// A pointer to the partitions of another processor. It dangles if that processor was dropped.
    pub(crate) fn view(&self, processor: usize) -> *const Self {
        self.table.views[processor].load(Acquire).cast_const().cast()
    }

    /// Whether no move of the partition away from this processor is in progress, and no operation waits for one.
    pub(crate) fn is_settled(&self, index: usize) -> bool {
        let entry = &self.entries[index];
        entry.departures.get() == 0 && entry.waiting.borrow().is_empty()
    }

    /// Takes the state out of the partition, if it is here and no operation uses it.
    pub(crate) fn release(&self, index: usize) -> Option<Rebuildable<S>> {
        // The count is checked first, because the rest may be in use while it is above one.
        let mut owned = self.entries[index].owned.try_borrow_mut().ok()?;
        if owned.as_ref()?.count() > 1 || owned.as_ref()?.closed.get() || !self.is_settled(index) {
            return None;
        }
        owned.take().and_then(|owned| owned.into_state().ok())
    }
}
