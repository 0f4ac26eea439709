//! One contiguous piece of memory for a processor's operations and its requests' objects.
//!
//! The embedder may supply memory that this crate cannot allocate, such as huge pages. The slab and the pools allocate
//! chunks from it in order and never free them. When it is used up, they continue with the global allocator, and these
//! bytes are counted as *overflow* (the high slab of the TUX paper, §4.3).
//!
//! # Safety
//! The memory is borrowed from its owner once, for the owner's whole life. A raw pointer keeps the owner until the last
//! [`Owner`] handle of the region is dropped; a pool has such a handle while its chunks are in use. Nothing accesses
//! the owner in between.

use std::alloc::Layout;
use std::cell::Cell;
use std::ops::DerefMut;
use std::ptr::NonNull;
use std::sync::Arc;

/// Any value that is stored only to be dropped later.
trait Keep: Send {}
impl<T: Send> Keep for T {}

/// The owner of the memory.
pub(crate) struct Owner(NonNull<dyn Keep>);

// SAFETY: the owner is `Send`, and the last handle drops it. There is no other access.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: `Region::new` made the pointer from a box, and it is dropped once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Memory for the operations and objects of a processor; see
/// [`ProcessorBuilder::with_region`](crate::ProcessorBuilder::with_region).
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<Owner>,
}

// SAFETY: only this region owns the memory, and the memory's owner is `Send`.
unsafe impl Send for Region {}

impl Region {
    /// Creates a region from all bytes of `memory`. Their contents will be overwritten.
    pub fn new<M: DerefMut<Target = [u8]> + Send + 'static>(memory: M) -> Self {
        let owner = Box::into_raw(Box::new(memory));
        // SAFETY: the box was just created, so there is no other reference to it.
        let bytes: &mut [u8] = unsafe { (*owner).deref_mut() };
        let (start, bytes) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        let owner: *mut dyn Keep = owner;
        let owner = Owner(NonNull::new(owner).expect("a box is not null"));
        Self { start, bytes, owner: Arc::new(owner) }
    }
}

/// A bump allocator: a region and the number of bytes taken from it.
pub(crate) struct BumpAllocator {
    region: Region,
    used: Cell<usize>,
}

impl BumpAllocator {
    pub(crate) fn new(region: Region) -> Self {
        Self { region, used: Cell::new(0) }
    }

    /// Allocates memory with this layout. It is valid while a handle of the owner exists. Returns `None` if the region
    /// has no room.
    pub(crate) fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let Region { start, bytes, .. } = self.region;
        let at = start.as_ptr().addr() + self.used.get();
        let offset = self.used.get() + (at.next_multiple_of(layout.align()) - at);
        let end = offset.checked_add(layout.size()).filter(|end| *end <= bytes)?;
        self.used.set(end);
        // SAFETY: the result is inside the region.
        Some(unsafe { start.add(offset) })
    }

    pub(crate) fn owner(&self) -> Arc<Owner> {
        self.region.owner.clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_apart_and_inside() {
        let memory = vec![0u8; 1000];
        let (start, end) = (memory.as_ptr().addr(), memory.as_ptr().addr() + 1000);
        let supply = BumpAllocator::new(Region::new(memory));
        let layout = Layout::from_size_align(192, 64).unwrap();
        let mut last = start;
        let pieces = std::iter::from_fn(|| supply.take(layout));
        let count = pieces
            .inspect(|piece| {
                let at = piece.as_ptr().addr();
                assert!(at % 64 == 0 && at >= last && at + 192 <= end);
                last = at + 192;
            })
            .count();
        assert!((4..=5).contains(&count), "{count}");
    }

    #[test]
    fn the_owner_goes_with_the_last_who_keeps_it() {
        struct RecordsDrop(Vec<u8>, Arc<Cell32>);
        type Cell32 = std::sync::atomic::AtomicU32;
        impl std::ops::Deref for RecordsDrop {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }
        impl DerefMut for RecordsDrop {
            fn deref_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
        }
        impl Drop for RecordsDrop {
            fn drop(&mut self) {
                self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(Cell32::new(0));
        let supply = BumpAllocator::new(Region::new(RecordsDrop(vec![0; 64], dropped.clone())));
        let owner = supply.owner();
        drop(supply);
        let count = || dropped.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(count(), 0);
        drop(owner);
        assert_eq!(count(), 1);
    }
}
