//! Pools for the objects that a request uses in addition to its operations: buffers, tables, parser states.
//!
//! Like the slab, a pool reuses the most recently freed block first, while it is still cached, and its
//! strides are odd numbers of cache lines, so that objects of one size do not compete for a few cache
//! sets. All types of one size class share a pool, so types that are not alive at the same time share
//! memory (TUX paper, §4.3).
//!
//! Objects are not `Send`, so they stay on their processor's thread, and nothing here is shared between threads.
//!
//! # Safety
//! - A block is in one of three states: in its free list, where its first word points to the next
//!   block; taken, by the one [`Pooled`](crate::Pooled) that points to it; or in transition between the
//!   two.
//! - Blocks stay allocated until the [`Pools`] are dropped, and each `Pooled` keeps these alive.
//! - Pools are not `Sync` and are counted by `Rc`, so only one thread uses them. No reference to a cell is held across
//!   foreign code, because destructors of values run outside the pools.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use crate::memory::chunks::{Chunks, chunk_of};
use crate::memory::slab::Slab;
use crate::operation::size_class::{CLASSES, stride};

/// A free block: a pointer to the next one.
type Block = Cell<Option<NonNull<u8>>>;

/// The object pools of a processor.
#[derive(Default)]
pub(crate) struct Pools {
    free: [Block; CLASSES.len()],
    chunks: RefCell<Chunks>,
    live: Cell<usize>,
    bytes: Cell<usize>,
}

impl Pools {
    /// Takes a free block of `class`, if there is one.
    #[inline]
    fn pop(&self, class: usize) -> Option<NonNull<u8>> {
        let block = self.free[class].get()?;
        // SAFETY: the first word of a free block points to the next block (top of the file).
        self.free[class].set(unsafe { block.cast::<Option<NonNull<u8>>>().read() });
        Some(block)
    }

    /// Takes a block of `class`, allocated in the region of `slab` while that has room.
    #[inline]
    pub(crate) fn take(&self, class: usize, slab: &Slab) -> NonNull<u8> {
        let block = self.pop(class).unwrap_or_else(|| self.grow(class, slab));
        self.live.set(self.live.get() + 1);
        block
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block was taken from these pools with this class, contains no live value, and is freed once.
    #[inline]
    pub(crate) unsafe fn release(&self, class: usize, block: NonNull<u8>) {
        self.live.set(self.live.get() - 1);
        self.push(class, block);
    }

    #[inline]
    fn push(&self, class: usize, block: NonNull<u8>) {
        // SAFETY: the block has no other user and is large and aligned enough for a word.
        unsafe { block.cast::<Option<NonNull<u8>>>().write(self.free[class].get()) };
        self.free[class].set(Some(block));
    }

    /// The bytes of all chunks, and the number of live objects.
    pub(crate) fn figures(&self) -> (usize, usize) {
        (self.bytes.get(), self.live.get())
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, class: usize, slab: &Slab) -> NonNull<u8> {
        let stride = stride(class as u8);
        let (layout, count) = chunk_of(stride, usize::MAX).expect("room for a chunk");
        let start = slab.allocate(layout, &mut self.chunks.borrow_mut());
        self.bytes.set(self.bytes.get() + layout.size());
        // Freed in reverse order, so that the first block is taken first.
        for n in (1..count).rev() {
            // SAFETY: the block lies within the new chunk and is unused.
            self.push(class, unsafe { start.add(n * stride) });
        }
        start
    }
}
