//! The slab of operation slots: a free list per size class, last freed first used.
//!
//! A slot that was just freed is still in the cache, so the free lists are stacks. Strides are odd
//! multiples of a cache line, since headers at page-aligned distances would all map to the same few
//! cache sets (measured: four times slower). The slab grows by chunks that it keeps as long as the
//! processor lives, taken from the processor's [region](crate::memory::region) first.
//!
//! # Safety
//! - Only the owning processor's thread accesses the cells here, in short sections without foreign
//!   code, so no reference into them is held across another access.
//! - Chunks stay allocated until the [`RetiredChunks`] are dropped. The processor passes these to the
//!   program, which drops them when the last processor is gone: until then, envelopes of this slab may
//!   still be with another processor.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::region::{BumpAllocator, Owner, Region};
use crate::operation::id::{MAX_OPERATIONS, OperationId};
use crate::operation::size_class::stride;
use crate::operation::slot::{Header, Slot};
use crate::operation::state::SlotState;

/// The approximate size of a chunk, in bytes. A chunk has at least four slots.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;

/// Memory from the general allocator.
pub(crate) struct Chunk {
    pub(crate) start: NonNull<u8>,
    pub(crate) layout: Layout,
}

/// The slab of a processor.
pub(crate) struct Slab {
    /// Free slots by class. The array has 16 lists, so that no four-bit index is out of bounds; the
    /// last ones stay empty.
    free: [UnsafeCell<Vec<Slot>>; 16],
    /// All slots by index, for wakers.
    table: UnsafeCell<Vec<Slot>>,
    /// Chunks outside the region.
    chunks: UnsafeCell<Vec<Chunk>>,
    region: Option<BumpAllocator>,
    /// Bytes of all chunks, and bytes of all pools outside the region.
    bytes: Cell<usize>,
    overflow: Cell<usize>,
    live: Cell<usize>,
    bound: Cell<usize>,
    /// The processor's number, for the slots' operation ids.
    number: u16,
}

impl Slab {
    /// Creates a slab of at most `bound` live operations, in the region while that has room.
    pub(crate) fn new(bound: usize, number: u16, region: Option<Region>) -> Self {
        Self {
            free: Default::default(),
            table: UnsafeCell::default(),
            chunks: UnsafeCell::default(),
            region: region.map(BumpAllocator::new),
            bytes: Cell::new(0),
            overflow: Cell::new(0),
            live: Cell::new(0),
            bound: Cell::new(bound),
            number,
        }
    }

    /// Takes a free slot of `class`; none when the bound is reached.
    #[inline(always)]
    pub(crate) fn take(&self, class: usize) -> Option<Slot> {
        let live = self.live.get();
        if live >= self.bound.get() {
            return None;
        }
        // SAFETY: short section (top of the file).
        let slot = match unsafe { (&mut *self.free[class & 15].get()).pop() } {
            Some(slot) => slot,
            None => self.grow(class)?,
        };
        self.live.set(live + 1);
        Some(slot)
    }

    /// Frees a slot whose contents need no drop.
    #[inline]
    pub(crate) fn give(&self, slot: Slot) {
        debug_assert!(slot.is_bare(), "freed with something alive in it");
        slot.state.set(SlotState::Free);
        slot.flags.set(0);
        slot.id.set(slot.id.get().next());
        slot.serial.set(slot.serial.get().next());
        self.live.set(self.live.get() - 1);
        // SAFETY: short section (top of the file). `grow` has reserved capacity for all slots of the
        // class, and a slot is taken before it is freed, so each is in the list at most once.
        unsafe {
            let free = &mut *self.free[usize::from(slot.class.get() & 15)].get();
            let count = free.len();
            debug_assert!(count < free.capacity());
            free.as_mut_ptr().add(count).write(slot);
            free.set_len(count + 1);
        }
    }

    /// Allocates new slots of `class` and takes one of them. None when all indices are in use.
    #[cold]
    fn grow(&self, class: usize) -> Option<Slot> {
        let stride = stride(class as u8);
        let room = MAX_OPERATIONS - self.capacity() as usize;
        let count = (CHUNK_BYTES / stride).max(4).min(room);
        if count == 0 {
            return None;
        }
        let layout = Layout::from_size_align(stride * count, 64).expect("a small chunk");
        let start = match self.region.as_ref().and_then(|region| region.take(layout)) {
            Some(start) => start.as_ptr(),
            None => self.overflow(layout),
        };
        self.bytes.set(self.bytes.get() + layout.size());
        // SAFETY: short section (top of the file); slots are carved out of the new chunk, each within
        // it and aligned, and their headers are written before any other code can reach them.
        unsafe {
            let (table, free) = (&mut *self.table.get(), &mut *self.free[class].get());
            free.reserve(count + table.len());
            for n in 0..count {
                let header = start.add(n * stride).cast::<Header>();
                let name = OperationId::new(self.number, table.len() as u32);
                header.write(Header::new(name, class as u8));
                let slot = Slot::from_raw(NonNull::new_unchecked(header));
                table.push(slot);
                free.push(slot);
            }
            free.pop()
        }
    }

    /// Allocates a chunk with the general allocator.
    fn overflow(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: short section (top of the file).
        unsafe { (&mut *self.chunks.get()).push(Chunk { start, layout }) };
        self.note_overflow(layout.size());
        start.as_ptr()
    }

    /// Records that a pool of this processor has grown by `bytes` outside the region.
    pub(crate) fn note_overflow(&self, bytes: usize) {
        self.overflow.set(self.overflow.get() + bytes);
    }

    /// The bump allocator of the region, for other pools.
    pub(crate) fn supply(&self) -> Option<&BumpAllocator> {
        self.region.as_ref()
    }

    /// Bytes outside the region, over all pools; zero without a region.
    pub(crate) fn overflow_bytes(&self) -> usize {
        if self.region.is_some() { self.overflow.get() } else { 0 }
    }

    /// Makes every free slot look as if it had been used `uses` more times.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn age(&self, uses: u64) {
        let slots = (0..self.capacity()).filter_map(|index| self.get(index));
        for slot in slots.filter(|slot| slot.state.get() == SlotState::Free) {
            slot.id.set(slot.id.get().after(uses));
            slot.serial
                .set(crate::operation::state::Serial::of_word(slot.serial.get().word() + uses));
        }
    }

    /// Rejects all further operations.
    pub(crate) fn close(&self) {
        self.bound.set(0);
    }

    /// The slot at `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<Slot> {
        // SAFETY: short section (top of the file).
        unsafe { (&*self.table.get()).get(index as usize).copied() }
    }

    /// The number of slots, free or in use.
    pub(crate) fn capacity(&self) -> u32 {
        // SAFETY: short section (top of the file).
        unsafe { (&*self.table.get()).len() as u32 }
    }

    /// Whether one more operation fits within the bound.
    pub(crate) fn has_room(&self) -> bool {
        self.live.get() < self.bound.get()
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound.get()
    }

    /// Bytes of all chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Retires the chunks, to be kept until no other processor can reach a slot in them.
    pub(crate) fn remains(&self) -> RetiredChunks {
        // SAFETY: short section (top of the file).
        let chunks = unsafe { std::mem::take(&mut *self.chunks.get()) };
        RetiredChunks { chunks, _region: self.region.as_ref().map(BumpAllocator::owner) }
    }
}

/// Retired chunks: the memory of a slab whose processor is gone.
pub(crate) struct RetiredChunks {
    chunks: Vec<Chunk>,
    _region: Option<Arc<Owner>>,
}

// SAFETY: plain memory; only envelopes refer to it, and these are `Send`.
unsafe impl Send for RetiredChunks {}

impl Drop for RetiredChunks {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: allocated with this layout by `grow`, and freed once.
            unsafe { dealloc(chunk.start.as_ptr(), chunk.layout) }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn last_freed_is_first_used_and_the_bound_holds() {
        let slab = Slab::new(2, 0, None);
        let (one, two) = (slab.take(0).unwrap(), slab.take(0).unwrap());
        assert!(slab.take(0).is_none());
        one.state.set(SlotState::Empty);
        two.state.set(SlotState::Empty);
        let name = one.id.get();
        slab.give(two);
        slab.give(one);
        let again = slab.take(0).unwrap();
        assert!(again == one && again.id.get() != name);
        assert!(slab.get(again.id.get().index()) == Some(again) && slab.get(u32::MAX).is_none());
        drop(slab.remains());
    }
}
