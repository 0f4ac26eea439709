//! The memory of stacks: large mappings, each divided into stacks of one size.
//!
//! A stack is a range of pages, of which the lowest are the guard: an access to them raises a fault.
//! `MADV_GUARD_INSTALL` (Linux 6.13) makes a guard without dividing the mapping, so 100,000 stacks need only a few
//! mappings. On other kernels `mprotect` divides it, and the limit on a process's mappings (65,530) bounds the number
//! of stacks to half of it.
//!
//! # Safety
//! A [`Chunk`] is a separate mapping, which no other code knows, and is unmapped when it is dropped. [`Chunk::divide`]
//! returns each part of it once, as a [`Stack`], which keeps the chunk alive. A `Stack` is neither `Clone` nor `Copy`,
//! so its owner is the only one that accesses the part: a coroutine while it runs, and otherwise [`Stack::empty`] and
//! [`Stack::used`]. Every stack has a guard of [`Layout::guard`] bytes at its lower end before it is returned.

use std::cell::Cell;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr;
use std::rc::Rc;

use corosensei::stack::StackPointer;
use corosensei::stack::valgrind::ValgrindStackRegistration;

use crate::layout::Layout;

/// `MADV_GUARD_INSTALL` of Linux 6.13.
#[cfg(target_os = "linux")]
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Tops of successive stacks differ by this many bytes modulo the page size, even between chunks, so that they share as
/// few sets of a cache as possible.
const STAGGER: usize = 64;
/// The number of different tops: three quarters of a page, so that a fibre which waits near the top touches one page.
const TOPS: usize = 48;

/// The bytes above a coroutine's stack, for the control block of the fibre. The end of the coroutine's stack, which
/// each switch accesses, shares its cache line with the first 48 of them.
pub(crate) const RESERVED: usize = 176;

/// The size of a fibre's stack, without its guard. Only pages that the fibre has touched use memory.
///
/// The runtime uses 176 bytes of it. Up to 3 KiB more are left unused, so that the tops of stacks fall into different
/// cache sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StackSize {
    /// 16 KiB, for bodies without deep calls.
    KiB16,
    /// 64 KiB, the default.
    #[default]
    KiB64,
    /// 256 KiB.
    KiB256,
    /// 1 MiB.
    MiB1,
}

impl StackSize {
    pub(crate) const ALL: [Self; 4] = [Self::KiB16, Self::KiB64, Self::KiB256, Self::MiB1];

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        16 << (10 + 2 * self as usize)
    }

    /// The layout on this system.
    pub(crate) fn layout(self) -> Layout {
        Layout::new(self, page_size())
    }
}

fn page_size() -> usize {
    // SAFETY: a query without memory effects.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A mapping that contains stacks of one size.
struct Chunk {
    base: *mut libc::c_void,
    bytes: usize,
    layout: Layout,
    /// Whether `MADV_GUARD_INSTALL` works. It does not on older kernels, nor in locked memory.
    installs: Cell<bool>,
}

impl Chunk {
    fn map(layout: Layout, count: usize) -> io::Result<Self> {
        let bytes = count * layout.stride();
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would use 2 MiB for a stack that needs 4 KiB. Kernels without huge pages refuse the advice.
        #[cfg(target_os = "linux")]
        // SAFETY: the range is the mapping.
        unsafe {
            libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE)
        };
        Ok(Self { base, bytes, layout, installs: Cell::new(cfg!(target_os = "linux")) })
    }

    /// Makes the guard that begins at `offset` inaccessible.
    fn guard(&self, offset: usize) -> io::Result<()> {
        let guard = self.layout.guard;
        assert!(offset + guard <= self.bytes, "a guard is a part of its chunk");
        let begin = self.base.wrapping_byte_add(offset);
        #[cfg(target_os = "linux")]
        if self.installs.get() {
            // SAFETY: the range is part of the mapping, and no stack contains it.
            if unsafe { libc::madvise(begin, guard, MADV_GUARD_INSTALL) } == 0 {
                return Ok(());
            }
            self.installs.set(false);
        }
        // SAFETY: as above.
        match unsafe { libc::mprotect(begin, guard, libc::PROT_NONE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: this chunk owns the mapping, and none of its stacks exists any more: each keeps the chunk alive.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

/// The part of a chunk that has not been divided into stacks yet.
pub(crate) struct Undivided {
    chunk: Rc<Chunk>,
    size: StackSize,
    offset: usize,
    /// The number of its first stack, counted over all stacks of this size.
    first: usize,
}

impl Undivided {
    /// Maps memory for `count` stacks, after the `first` ones of this size.
    pub(crate) fn map(size: StackSize, count: usize, first: usize) -> io::Result<Self> {
        let chunk = Rc::new(Chunk::map(size.layout(), count)?);
        Ok(Self { chunk, size, offset: 0, first })
    }

    /// The next stack; `None` if the chunk is used up.
    pub(crate) fn next(&mut self) -> Option<io::Result<Stack>> {
        let Layout { guard, bytes } = self.chunk.layout;
        let (begin, end) = (self.offset, self.offset + guard + bytes);
        if end > self.chunk.bytes {
            return None;
        }
        if let Err(error) = self.chunk.guard(begin) {
            return Some(Err(error));
        }
        self.offset = end;
        let stagger = (self.first + begin / (guard + bytes)) % TOPS * STAGGER;
        let address = self.chunk.base.addr();
        let base = NonZeroUsize::new(address + end - stagger - RESERVED).expect("in the chunk");
        let usable = self.chunk.base.wrapping_byte_add(begin + guard);
        Some(Ok(Stack {
            chunk: self.chunk.clone(),
            base,
            size: self.size,
            measured: false,
            _known_to_valgrind: ValgrindStackRegistration::new(usable.cast(), bytes),
        }))
    }
}

/// A stack that nothing runs on, or that a coroutine owns.
pub(crate) struct Stack {
    chunk: Rc<Chunk>,
    /// The upper end, below the reserved bytes.
    base: StackPointer,
    pub(crate) size: StackSize,
    /// Whether it was empty when the current fibre started.
    pub(crate) measured: bool,
    /// Without it Valgrind would mistake a switch between neighbouring stacks for the growth of one.
    _known_to_valgrind: ValgrindStackRegistration,
}

impl Stack {
    /// The offset of its lower end, where the guard begins, in its chunk.
    fn offset(&self) -> usize {
        let base = self.base.get() - self.chunk.base.addr();
        base - base % self.chunk.layout.stride()
    }

    /// The lowest address, where the guard begins.
    pub(crate) fn limit(&self) -> usize {
        self.chunk.base.addr() + self.offset()
    }

    /// The addresses of the guard.
    pub(crate) fn guard(&self) -> Range<usize> {
        let limit = self.limit();
        limit..limit + self.chunk.layout.guard
    }

    /// The `RESERVED` bytes above the coroutine's stack.
    pub(crate) fn reserved(&self) -> *mut u8 {
        self.chunk.base.wrapping_byte_add(self.base.get() - self.chunk.base.addr()).cast()
    }

    /// The usable pages.
    fn pages(&self) -> (*mut libc::c_void, usize) {
        let Layout { guard, bytes } = self.chunk.layout;
        (self.chunk.base.wrapping_byte_add(self.offset() + guard), bytes)
    }

    /// Returns all memory of the stack to the kernel.
    pub(crate) fn empty(&mut self) {
        let (begin, bytes) = self.pages();
        // SAFETY: the range is this stack's, without its guard, and nothing runs on it: a coroutine would own it.
        unsafe { libc::madvise(begin, bytes, libc::MADV_DONTNEED) };
    }

    /// The bytes of memory that the stack uses now; `None` if the kernel does not tell.
    pub(crate) fn used(&self) -> Option<usize> {
        let (begin, bytes) = self.pages();
        let mut resident = [0u8; StackSize::MiB1.bytes() >> 12];
        // SAFETY: the range is mapped; the kernel writes one byte for each of its pages, of at least 4 KiB.
        let failed = unsafe { libc::mincore(begin, bytes, resident.as_mut_ptr().cast()) };
        let pages = resident.iter().filter(|page| **page & 1 != 0).count();
        (failed == 0).then(|| pages * page_size())
    }
}

// SAFETY: the range is owned by this value, has a guard at its lower end and more than the required 4 KiB above it.
// Both ends are multiples of 16 bytes.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(self.limit()).expect("the kernel maps nothing at zero")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(size: StackSize, count: usize) -> Vec<Stack> {
        let mut chunk = Undivided::map(size, count, 0).unwrap();
        std::iter::from_fn(|| chunk.next()).map(Result::unwrap).collect()
    }

    #[test]
    fn stacks_of_a_chunk_are_disjoint_and_have_their_size() {
        for size in StackSize::ALL {
            let stacks = stacks(size, 20);
            assert_eq!(stacks.len(), 20);
            for (stack, next) in stacks.iter().zip(&stacks[1..]) {
                assert!(stack.base.get() + RESERVED <= next.limit());
                assert_eq!(stack.limit() % 4096, 0);
                let usable = stack.base.get() + RESERVED - stack.guard().end;
                assert!(usable <= size.bytes() && usable > size.bytes() - TOPS * STAGGER);
            }
        }
    }

    #[test]
    fn touched_pages_are_measured_until_the_stack_is_emptied() {
        let mut stack = stacks(StackSize::KiB64, 1).pop().unwrap();
        assert_eq!(stack.used(), Some(0));
        let (begin, bytes) = stack.pages();
        // SAFETY: the byte is in the usable part of the stack, which nothing else uses.
        unsafe { begin.cast::<u8>().add(bytes - 1).write(1) };
        assert!(stack.used().unwrap() >= 4096);
        stack.empty();
        assert_eq!(stack.used(), Some(0));
    }
}
