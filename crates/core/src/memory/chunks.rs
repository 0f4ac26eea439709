//! The chunks of a slab or of object pools. They come from the processor's region while that has room, and then from
//! the global allocator.
//!
//! # Safety
//! [`Chunks`] frees each chunk of the global allocator once, with the layout of its allocation. It keeps the owner of
//! the region alive while a chunk lies in the region.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::region::{BumpAllocator, Owner};

/// The approximate size of a chunk, in bytes. A chunk has at least four items. Under Miri it is small, because a processor
/// initializes, and at its end visits, each slot of a chunk.
const CHUNK_BYTES: usize = if cfg!(miri) { 2 * 1024 } else { 32 * 1024 };

/// The layout of a chunk of items of `stride` bytes, and their number, which is at most `room`. Returns `None` if
/// `room` is zero.
pub(crate) fn chunk_of(stride: usize, room: usize) -> Option<(Layout, usize)> {
    let count = (CHUNK_BYTES / stride).max(4).min(room);
    let layout = Layout::from_size_align(stride * count, 64).expect("a small chunk");
    (count > 0).then_some((layout, count))
}

/// Chunks that stay allocated until this is dropped.
#[derive(Default)]
pub(crate) struct Chunks {
    /// Chunks outside the region.
    allocated: Vec<(NonNull<u8>, Layout)>,
    /// The owner of the region, once a chunk lies in it.
    region: Option<Arc<Owner>>,
}

// SAFETY: chunks are plain memory, and only envelopes, which are `Send`, refer to it.
unsafe impl Send for Chunks {}

impl Chunks {
    /// Allocates a chunk. Returns its start and the number of bytes that lie outside the region.
    pub(crate) fn allocate(
        &mut self,
        layout: Layout,
        region: Option<&BumpAllocator>,
    ) -> (NonNull<u8>, usize) {
        if let Some((region, start)) = region.and_then(|from| Some((from, from.take(layout)?))) {
            self.region = Some(region.owner());
            return (start, 0);
        }
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        self.allocated.push((start, layout));
        (start, layout.size())
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        for (start, layout) in self.allocated.drain(..) {
            // SAFETY: `allocate` allocated the chunk with this layout, and it is freed once.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}
