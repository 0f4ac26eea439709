//! Pools for what a request has beside its operation: buffers, tables, parsers' states.
//!
//! As with the slots of operations, what was freed last is used first, while it is still in the cache,
//! and strides are odd numbers of cache lines, so that objects of one kind do not fall into the same
//! few sets of it. One pool for each class of sizes, shared by all types of that class: types that are
//! not alive at the same time share memory (TUX paper, §4.3).
//!
//! An object stays on its processor's thread: it is not `Send`. So nothing here is shared.
//!
//! # Safety
//! - A block is in one of three states: in its free list, where its first word is the next block;
//!   taken, by the one [`Pooled`] that points to it; or on its way between the two.
//! - Blocks stay allocated until the [`Pools`] are dropped, and each `Pooled` counts in these.
//! - Pools are not `Sync` and counted by `Rc`: all of this is on one thread. No reference to a cell is
//!   held across anything foreign: destructors of values run outside.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use crate::memory::region::Owner;
use crate::memory::slab::{CHUNK_BYTES, CLASSES, Chunk, MAX_PAYLOAD, class_of, stride};
use crate::processor::processor::{self, Processor};

/// A free block: where the next one is.
type Block = Cell<Option<NonNull<u8>>>;

/// A processor's pools of objects.
pub(crate) struct Pools {
    free: [Block; CLASSES.len()],
    /// Those that are not in the region.
    chunks: RefCell<Vec<Chunk>>,
    /// The region's, once anything is in it.
    owner: RefCell<Option<Arc<Owner>>>,
    live: Cell<usize>,
    bytes: Cell<usize>,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            free: Default::default(),
            chunks: RefCell::default(),
            owner: RefCell::default(),
            live: Cell::new(0),
            bytes: Cell::new(0),
        }
    }
}

impl Pools {
    /// A block of `class`, if one is free.
    #[inline]
    fn pop(&self, class: usize) -> Option<NonNull<u8>> {
        let block = self.free[class].get()?;
        // SAFETY: a free block's first word is the next (top of the file).
        self.free[class].set(unsafe { block.cast::<Option<NonNull<u8>>>().read() });
        Some(block)
    }

    #[inline]
    fn push(&self, class: usize, block: NonNull<u8>) {
        // SAFETY: the block is nobody's, and has room and alignment for a word.
        unsafe { block.cast::<Option<NonNull<u8>>>().write(self.free[class].get()) };
        self.free[class].set(Some(block));
    }

    /// Bytes of the chunks, and how many objects there are.
    pub(crate) fn figures(&self) -> (usize, usize) {
        (self.bytes.get(), self.live.get())
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, class: usize, processor: &Processor) -> NonNull<u8> {
        let stride = stride(class as u8);
        let count = (CHUNK_BYTES / stride).max(4);
        let layout = Layout::from_size_align(stride * count, 64).expect("a small chunk");
        let start = match processor.slab().supply().and_then(|supply| supply.take(layout)) {
            Some(start) => {
                let owner = processor.slab().supply().map(|supply| supply.owner());
                *self.owner.borrow_mut() = owner;
                start
            }
            None => {
                // SAFETY: the layout is not empty.
                let start = NonNull::new(unsafe { alloc(layout) });
                let start = start.unwrap_or_else(|| handle_alloc_error(layout));
                self.chunks.borrow_mut().push(Chunk { start, layout });
                processor.slab().note_spill(layout.size());
                start
            }
        };
        self.bytes.set(self.bytes.get() + layout.size());
        // So that the first is taken first.
        for n in (1..count).rev() {
            // SAFETY: within the new chunk, and nobody's.
            self.push(class, unsafe { start.add(n * stride) });
        }
        start
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().drain(..) {
            // SAFETY: allocated with this layout by `grow`, and freed once; no object is left.
            unsafe { dealloc(chunk.start.as_ptr(), chunk.layout) }
        }
    }
}

/// A value of a request's in its processor's pools: a box whose memory comes from the last object of
/// its size that was dropped here, and goes back with the operation that has it. It calls no
/// allocator once the pools have grown, and is not `Send`: it stays on its processor.
///
/// ```
/// use phalanx_core::{Graph, Pooled};
///
/// let mut graph = Graph::new();
/// let read = graph.stage("read").object::<[u8; 4096]>("buffer").shared(());
/// let processor = graph.build(1).remove(0).grow(Box::new(|| ()));
/// processor.enter(|| {
///     let first = Pooled::new([0u8; 4096]);
///     let place = first.as_ptr();
///     drop(first);
///     assert_eq!(Pooled::new([1u8; 4096]).as_ptr(), place, "last freed, first used");
/// });
/// # let _ = read;
/// ```
///
/// ```compile_fail
/// fn leaves_its_thread(value: phalanx_core::Pooled<u32>) {
///     std::thread::spawn(move || drop(value));
/// }
/// ```
pub struct Pooled<T> {
    value: NonNull<T>,
    pools: Rc<Pools>,
}

impl<T> Pooled<T> {
    const CLASS: usize = {
        assert!(
            size_of::<T>() <= MAX_PAYLOAD && align_of::<T>() <= 64,
            "an object is larger than 16 KiB, or aligned to more than 64 bytes: box it"
        );
        class_of(size_of::<T>())
    };

    /// Puts `value` into the pools of this processor.
    ///
    /// # Panics
    /// Outside of a processor.
    #[inline]
    #[track_caller]
    pub fn new(value: T) -> Self {
        let class = const { Self::CLASS };
        processor::current(|processor| {
            let pools = processor.pools();
            let block = match pools.pop(class) {
                Some(block) => block,
                None => pools.grow(class, processor),
            };
            pools.live.set(pools.live.get() + 1);
            let place = block.cast::<T>();
            // SAFETY: a block of the class, which has the size and is aligned to 64.
            unsafe { place.write(value) };
            Self { value: place, pools: pools.clone() }
        })
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is alive and this object's alone.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Pooled<T> {
    #[inline]
    fn drop(&mut self) {
        /// Gives the block back also when the destructor panics.
        struct Back<'a>(&'a Pools, usize, NonNull<u8>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.live.set(self.0.live.get() - 1);
                self.0.push(self.1, self.2);
            }
        }
        let _back = Back(&self.pools, Self::CLASS, self.value.cast());
        // SAFETY: alive until here, and not looked at again.
        unsafe { self.value.drop_in_place() };
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
