//! One piece of memory for what lives on a processor: its operations and its requests' objects.
//!
//! Who runs the processor may hand it memory of a kind that it cannot ask for itself, such as huge
//! pages. Pools take their chunks from it, one behind the other, and give none back; where it ends
//! they go on with the general allocator, which is counted as *spilled* (the high slab of the TUX
//! paper, §4.3).
//!
//! # Safety
//! The memory is borrowed from its owner once, for as long as the owner lives, and the owner is
//! kept, behind a raw pointer, until the last [`Owner`] of the region has gone: pools keep one for
//! as long as anything lies in their chunks. Between the two nobody touches the owner.

use std::alloc::Layout;
use std::cell::Cell;
use std::ops::DerefMut;
use std::ptr::NonNull;
use std::sync::Arc;

/// Anything that is only dropped.
trait Keep: Send {}
impl<T: Send> Keep for T {}

/// What the memory belongs to.
pub(crate) struct Owner(NonNull<dyn Keep>);

// SAFETY: the owner is `Send`, and is dropped by whoever is last; nothing else is done with it.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: made from a box in `Region::new`, and dropped once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Memory for a processor to live in; see [`ProcessorBuilder::with_region`](crate::ProcessorBuilder::with_region).
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<Owner>,
}

// SAFETY: plain memory that is this region's alone, and its owner, which is `Send`.
unsafe impl Send for Region {}

impl Region {
    /// All of `memory`, of which the bytes may be anything.
    pub fn new<M: DerefMut<Target = [u8]> + Send + 'static>(memory: M) -> Self {
        let owner = Box::into_raw(Box::new(memory));
        // SAFETY: just made; nothing else knows of it.
        let bytes: &mut [u8] = unsafe { (*owner).deref_mut() };
        let (start, bytes) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        let owner: *mut dyn Keep = owner;
        let owner = Owner(NonNull::new(owner).expect("a box is somewhere"));
        Self { start, bytes, owner: Arc::new(owner) }
    }
}

/// A region, and how much of it has been taken.
pub(crate) struct BumpAllocator {
    region: Region,
    used: Cell<usize>,
}

impl BumpAllocator {
    pub(crate) fn new(region: Region) -> Self {
        Self { region, used: Cell::new(0) }
    }

    /// Memory of this layout, for as long as an owner is kept. None where the region has ended.
    pub(crate) fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let Region { start, bytes, .. } = self.region;
        let at = start.as_ptr().addr() + self.used.get();
        let begin = self.used.get() + (at.next_multiple_of(layout.align()) - at);
        let end = begin.checked_add(layout.size()).filter(|end| *end <= bytes)?;
        self.used.set(end);
        // SAFETY: inside of the region, which it does not leave.
        Some(unsafe { start.add(begin) })
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
        struct Told(Vec<u8>, Arc<Cell32>);
        type Cell32 = std::sync::atomic::AtomicU32;
        impl std::ops::Deref for Told {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }
        impl DerefMut for Told {
            fn deref_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
        }
        impl Drop for Told {
            fn drop(&mut self) {
                self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(Cell32::new(0));
        let supply = BumpAllocator::new(Region::new(Told(vec![0; 64], dropped.clone())));
        let owner = supply.owner();
        drop(supply);
        let count = || dropped.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(count(), 0);
        drop(owner);
        assert_eq!(count(), 1);
    }
}
