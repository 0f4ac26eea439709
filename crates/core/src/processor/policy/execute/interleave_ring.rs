//! The ring of a cohort's operations that wait for prefetched data.

use std::cell::Cell;

use crate::operation::slot::Slot;

/// The maximum number of operations of a cohort that wait for prefetches at the same time. A CPU core sustains only ten
/// to twenty concurrent loads, so a larger number would gain nothing. When the ring is full, the oldest operation is
/// resumed.
pub const MAX_INTERLEAVED: usize = 64;

/// The operations of the running cohort that wait for prefetches, oldest first.
pub(crate) struct InterleaveRing {
    /// Boxed, so that the other fields of the processor stay close together.
    ring: Box<[Cell<Option<Slot>>; MAX_INTERLEAVED]>,
    oldest: Cell<usize>,
    length: Cell<usize>,
    /// The number of waiting operations of a preempted cohort.
    preempted: Cell<usize>,
}

impl Default for InterleaveRing {
    fn default() -> Self {
        let ring = Box::new([const { Cell::new(None) }; MAX_INTERLEAVED]);
        Self { ring, oldest: Cell::new(0), length: Cell::new(0), preempted: Cell::new(0) }
    }
}

impl InterleaveRing {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length.get() == 0
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.length.get() + self.preempted.get() == MAX_INTERLEAVED
    }

    /// The number of operations that may start: `max`, or none while the ring is full.
    #[inline]
    pub(crate) fn limit(&self, max: usize) -> usize {
        if self.is_full() && !self.is_empty() { 0 } else { max }
    }

    /// Sets the waiting operations aside while `interruption` runs a cohort of another stage, which must not resume
    /// them. Interruptions do not nest, and each leaves no operation waiting.
    pub(crate) fn preempt(&self, interruption: impl FnOnce()) {
        /// Restores the waiting operations, even if the interruption panics.
        struct Restore<'a> {
            ring: &'a InterleaveRing,
            oldest: usize,
            length: usize,
        }
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.ring.preempted.set(0);
                self.ring.oldest.set(self.oldest);
                self.ring.length.set(self.length);
            }
        }
        let (oldest, length) = (self.oldest.get(), self.length.get());
        let _back = Restore { ring: self, oldest, length };
        self.preempted.set(length);
        self.oldest.set((oldest + length) % MAX_INTERLEAVED);
        self.length.set(0);
        interruption();
        assert!(self.is_empty(), "a cohort ended while operations waited for prefetches");
    }

    /// Appends an operation. The ring must not be full.
    pub(crate) fn push(&self, slot: Slot) {
        debug_assert!(!self.is_full());
        let position = (self.oldest.get() + self.length.get()) % MAX_INTERLEAVED;
        self.ring[position].set(Some(slot));
        self.length.set(self.length.get() + 1);
    }

    pub(crate) fn pop(&self) -> Option<Slot> {
        let oldest = self.oldest.get();
        let slot = self.ring[oldest].take()?;
        self.oldest.set((oldest + 1) % MAX_INTERLEAVED);
        self.length.set(self.length.get() - 1);
        Some(slot)
    }

    /// The number of waiting operations.
    pub(crate) fn len(&self) -> usize {
        self.length.get()
    }
}
