//! The sizes of a stack and of its guard, in whole pages.

use crate::stack::StackSize;

/// The minimum size of the inaccessible memory below a stack, in bytes. Rust code touches every page of a large frame
/// in order, but C code may not, so the guard is larger than most frames. With an odd number of pages, the ends of
/// neighbouring stacks use different sets of the caches of page tables.
const MIN_GUARD: usize = 20 << 10;

/// The sizes of the two parts of a stack in the address space. The guard is at the lower end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) guard: usize,
    /// The usable bytes.
    pub(crate) bytes: usize,
}

impl Layout {
    /// For stacks of `size` on a system with pages of `page` bytes.
    pub(crate) const fn new(size: StackSize, page: usize) -> Self {
        Self { guard: MIN_GUARD.next_multiple_of(page), bytes: size.bytes().next_multiple_of(page) }
    }

    /// The distance between two stacks.
    pub(crate) const fn stride(self) -> usize {
        self.guard + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_and_stacks_are_whole_pages() {
        for size in StackSize::ALL {
            for page in [4 << 10, 16 << 10, 64 << 10] {
                let Layout { guard, bytes } = Layout::new(size, page);
                assert!(guard >= MIN_GUARD && bytes >= size.bytes());
                assert_eq!((guard % page, bytes % page), (0, 0), "{size:?} with pages of {page}");
            }
            assert_eq!(Layout::new(size, 4 << 10).stride(), size.bytes() + (20 << 10));
        }
    }
}
