//! The slab of operation slots, with one last-in, first-out free list per size class.
//!
//! A slot that was just freed is still in the cache, so the free lists are stacks. Strides are odd multiples of a cache
//! line, because headers at page-aligned distances would all map to the same few cache sets (measured: four times
//! slower). The slab grows by chunks, which it keeps for the life of the processor. They come from the processor's
//! [region](crate::memory::region) while that has room.
//!
//! # Safety
//! - Only the owning processor's thread accesses these cells, in short sections without foreign code, so no reference
//!   into them is held across another access.
//! - Chunks stay allocated until the retired [`Chunks`] are dropped. The processor passes them to the program, which
//!   drops them after the last processor has ended, because another processor may still have envelopes of this slab
//!   until then.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;

use crate::memory::chunks::{Chunks, chunk_of};
use crate::memory::region::{BumpAllocator, Region};
use crate::operation::id::{MAX_OPERATIONS, OperationId};
use crate::operation::size_class::stride;
use crate::operation::slot::{Header, Slot};
use crate::operation::state::SlotState;

/// The slab of a processor.
pub(crate) struct Slab {
    /// The free slots, by class. The array has 16 lists so that no four-bit index is out of bounds; the last ones stay
    /// empty.
    free: [UnsafeCell<Vec<Slot>>; 16],
    /// All slots by index, for wakers.
    table: UnsafeCell<Vec<Slot>>,
    chunks: UnsafeCell<Chunks>,
    region: Option<BumpAllocator>,
    /// The bytes of all chunks of slots, and the bytes of all slots and pools outside the region.
    bytes: Cell<usize>,
    overflow: Cell<usize>,
    live: Cell<usize>,
    bound: Cell<usize>,
    /// The processor's number in wakers, for the slots' operation ids.
    waker_number: u16,
}

impl Slab {
    /// Creates a slab of at most `bound` live operations, which allocates from the region while that has room.
    pub(crate) fn new(bound: usize, waker_number: u16, region: Option<Region>) -> Self {
        Self {
            free: Default::default(),
            table: UnsafeCell::default(),
            chunks: UnsafeCell::default(),
            region: region.map(BumpAllocator::new),
            bytes: Cell::new(0),
            overflow: Cell::new(0),
            live: Cell::new(0),
            bound: Cell::new(bound),
            waker_number,
        }
    }

    /// Takes a free slot of `class`. Returns `None` if the bound is reached.
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
    pub(crate) fn release(&self, slot: Slot) {
        debug_assert!(slot.is_bare(), "a slot was freed with a live value in it");
        slot.state.set(SlotState::Free);
        slot.flags.set(0);
        slot.id.set(slot.id.get().next());
        slot.serial.set(slot.serial.get().next());
        self.live.set(self.live.get() - 1);
        // SAFETY: short section (top of the file). `grow` has reserved capacity for all slots of the class, and each
        // slot is in the list at most once, because it is taken before it is freed.
        unsafe {
            let free = &mut *self.free[usize::from(slot.class.get() & 15)].get();
            let count = free.len();
            debug_assert!(count < free.capacity());
            free.as_mut_ptr().add(count).write(slot);
            free.set_len(count + 1);
        }
    }

    /// Allocates new slots of `class` and takes one of them. Returns `None` if all indices are in use.
    #[cold]
    fn grow(&self, class: usize) -> Option<Slot> {
        let stride = stride(class as u8);
        let room = MAX_OPERATIONS - self.capacity() as usize;
        let (layout, count) = chunk_of(stride, room)?;
        // SAFETY: short section (top of the file).
        let chunks = unsafe { &mut *self.chunks.get() };
        let start = self.allocate(layout, chunks);
        self.bytes.set(self.bytes.get() + layout.size());
        // SAFETY: short section (top of the file). Each slot lies within the new chunk and is aligned, and its header
        // is written before any other code can access it.
        unsafe {
            let (table, free) = (&mut *self.table.get(), &mut *self.free[class].get());
            free.reserve(count + table.len());
            for n in 0..count {
                let header = start.as_ptr().add(n * stride).cast::<Header>();
                let id = OperationId::new(self.waker_number, table.len() as u32);
                header.write(Header::new(id, class as u8));
                let slot = Slot::from_raw(NonNull::new_unchecked(header));
                table.push(slot);
                free.push(slot);
            }
            free.pop()
        }
    }

    /// Allocates a chunk for this slab or a pool of the processor.
    pub(crate) fn allocate(&self, layout: Layout, chunks: &mut Chunks) -> NonNull<u8> {
        let (start, outside) = chunks.allocate(layout, self.region.as_ref());
        self.overflow.set(self.overflow.get() + outside);
        start
    }

    /// Bytes outside the region, over all pools; zero without a region.
    pub(crate) fn overflow_bytes(&self) -> usize {
        if self.region.is_some() { self.overflow.get() } else { 0 }
    }

    /// Ages every free slot as if it had been used `uses` more times.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn age(&self, uses: u64) {
        for slot in self.slots().filter(|slot| slot.state.get() == SlotState::Free) {
            slot.id.set(slot.id.get().after(uses));
            slot.serial
                .set(crate::operation::state::Serial::from_word(slot.serial.get().word() + uses));
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

    /// All slots, free or in use.
    pub(crate) fn slots(&self) -> impl DoubleEndedIterator<Item = Slot> + '_ {
        (0..self.capacity()).filter_map(|index| self.get(index))
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

    /// Removes the chunks. The caller must keep them until no other processor can access a slot in them.
    pub(crate) fn retire(&self) -> Chunks {
        // SAFETY: short section (top of the file).
        unsafe { std::mem::take(&mut *self.chunks.get()) }
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
        let id = one.id.get();
        slab.release(two);
        slab.release(one);
        let slot = slab.take(0).unwrap();
        assert!(slot == one && slot.id.get() != id);
        assert!(slab.get(slot.id.get().index()) == Some(slot) && slab.get(u32::MAX).is_none());
        drop(slab.retire());
    }
}
