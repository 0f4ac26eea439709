//! Where operations live: pools of slots by size, last freed first used.
//!
//! A slot that was just freed is still in the cache; so the pools are stacks. Strides are odd
//! multiples of a cache line, since headers at page-aligned distances would all fall into the same
//! few sets of the cache (measured: four times slower). A pool grows by chunks that are never given
//! back while the processor lives: of the processor's [region](crate::memory::region) first.
//!
//! # Safety
//! - All cells here are touched by the owning processor's thread, in short sections that call
//!   nothing foreign, so no reference into them is ever held across another access.
//! - Chunks stay allocated until the [`RetiredChunks`] are dropped. The processor leaves these to the
//!   program, which drops them when the last processor has gone: envelopes of this slab may still lie
//!   with another processor until then.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::region::{BumpAllocator, Owner, Region};
use crate::operation::id::{MAX_OPERATIONS, OperationId};
use crate::operation::slot::{Header, Slot};
use crate::operation::state::SlotState;

/// Bytes of payload in each class. With the header, each stride is an odd number of cache lines.
pub(crate) const CLASSES: [usize; 11] =
    [128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384];

/// Chunks hold about this many bytes, and at least four slots.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;

/// The largest payload of an operation, in bytes.
pub(crate) const MAX_PAYLOAD: usize = CLASSES[CLASSES.len() - 1];

/// Bytes that a slot of a class takes.
pub(crate) fn stride(class: u8) -> usize {
    size_of::<Header>() + CLASSES[usize::from(class).min(CLASSES.len() - 1)]
}

/// The smallest class for `size` bytes; `CLASSES.len()` when none is large enough.
pub(crate) const fn class_of(size: usize) -> usize {
    let mut class = 0;
    while class < CLASSES.len() && CLASSES[class] < size {
        class += 1;
    }
    class
}

/// Fails to compile when an operation does not fit a slot.
pub(crate) const fn assert_fits<P>() {
    assert!(
        size_of::<P>() <= MAX_PAYLOAD && align_of::<P>() <= 64,
        "an operation (its captures, its future or its result) is larger than 16 KiB, or aligned \
         to more than 64 bytes: box what is large in it"
    );
}

/// Memory from the general allocator.
pub(crate) struct Chunk {
    pub(crate) start: NonNull<u8>,
    pub(crate) layout: Layout,
}

/// A processor's pools.
pub(crate) struct Slab {
    /// By class. One of 16, so that no index of four bits is out of bounds; the last ones stay empty.
    free: [UnsafeCell<Vec<Slot>>; 16],
    /// By index; for wakers.
    table: UnsafeCell<Vec<Slot>>,
    /// Chunks that are not in the region.
    chunks: UnsafeCell<Vec<Chunk>>,
    region: Option<BumpAllocator>,
    /// Bytes of all chunks, and of those of all pools that are not in the region.
    bytes: Cell<usize>,
    overflow: Cell<usize>,
    live: Cell<usize>,
    bound: Cell<usize>,
    /// The processor's number, for the slots' names.
    number: u16,
}

impl Slab {
    /// A slab of at most `bound` live operations, in the region while that has room.
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

    /// A free slot of `class`, or none when the bound is reached.
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

    /// Takes back a slot in which nothing is alive that needs dropping.
    #[inline]
    pub(crate) fn give(&self, slot: Slot) {
        debug_assert!(slot.is_bare(), "freed with something alive in it");
        slot.state.set(SlotState::Free);
        slot.flags.set(0);
        slot.id.set(slot.id.get().next());
        slot.serial.set(slot.serial.get().next());
        self.live.set(self.live.get() - 1);
        // SAFETY: short section (top of the file). `grow` has reserved room for all slots of the
        // class, and a slot is given back once, since it is taken before.
        unsafe {
            let free = &mut *self.free[usize::from(slot.class.get() & 15)].get();
            let count = free.len();
            debug_assert!(count < free.capacity());
            free.as_mut_ptr().add(count).write(slot);
            free.set_len(count + 1);
        }
    }

    /// Makes new slots of `class` and takes one of them. None when every index is used.
    #[cold]
    fn grow(&self, class: usize) -> Option<Slot> {
        let stride = size_of::<Header>() + CLASSES[class];
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
        // SAFETY: short section (top of the file); slots are carved out of the new chunk, each
        // within it and aligned, and their headers are written before anyone can name them.
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

    /// A chunk of the general allocator.
    fn overflow(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: short section (top of the file).
        unsafe { (&mut *self.chunks.get()).push(Chunk { start, layout }) };
        self.note_overflow(layout.size());
        start.as_ptr()
    }

    /// Some pool of this processor has grown by so many bytes beyond the region.
    pub(crate) fn note_overflow(&self, bytes: usize) {
        self.overflow.set(self.overflow.get() + bytes);
    }

    /// Where chunks come from, for other pools too.
    pub(crate) fn supply(&self) -> Option<&BumpAllocator> {
        self.region.as_ref()
    }

    /// Bytes that are not in the region, over all pools; none where there is no region.
    pub(crate) fn overflow_bytes(&self) -> usize {
        if self.region.is_some() { self.overflow.get() } else { 0 }
    }

    /// Has every free slot look as if it had been used so many times more.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn age(&self, uses: u64) {
        let slots = (0..self.capacity()).filter_map(|index| self.get(index));
        for slot in slots.filter(|slot| slot.state.get() == SlotState::Free) {
            slot.id.set(slot.id.get().after(uses));
            slot.serial
                .set(crate::operation::state::Serial::of_word(slot.serial.get().word() + uses));
        }
    }

    /// Takes in no operation any more.
    pub(crate) fn close(&self) {
        self.bound.set(0);
    }

    /// The slot numbered `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<Slot> {
        // SAFETY: short section (top of the file).
        unsafe { (&*self.table.get()).get(index as usize).copied() }
    }

    /// How many slots there are, free or not.
    pub(crate) fn capacity(&self) -> u32 {
        // SAFETY: short section (top of the file).
        unsafe { (&*self.table.get()).len() as u32 }
    }

    /// Whether the bound allows one more.
    pub(crate) fn has_room(&self) -> bool {
        self.live.get() < self.bound.get()
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound.get()
    }

    /// Bytes in chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// The memory, to be kept until no other processor can name a slot of it.
    pub(crate) fn remains(&self) -> RetiredChunks {
        // SAFETY: short section (top of the file).
        let chunks = unsafe { std::mem::take(&mut *self.chunks.get()) };
        RetiredChunks { chunks, _region: self.region.as_ref().map(BumpAllocator::owner) }
    }
}

/// A slab's memory after its processor has gone.
pub(crate) struct RetiredChunks {
    chunks: Vec<Chunk>,
    _region: Option<Arc<Owner>>,
}

// SAFETY: plain memory; nothing reads it but envelopes, which are `Send`.
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
    fn strides_never_alias() {
        for bytes in CLASSES {
            assert_eq!((size_of::<Header>() + bytes) / 64 % 2, 1, "{bytes}");
        }
        assert_eq!((class_of(1), class_of(128), class_of(129)), (0, 0, 1));
        assert_eq!(class_of(MAX_PAYLOAD + 1), CLASSES.len());
    }

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
