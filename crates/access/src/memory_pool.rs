//! Working memory of password checks: reused while checks are waiting, and freed when none is.

use std::sync::{Mutex, PoisonError};

use argon2::Block;

/// Size above glibc's limit of 32 MiB for `mmap`: such allocations are unmapped when they are freed, while smaller ones
/// may stay in a thread's arena. Untouched pages take no memory.
const MMAP_BLOCKS: usize = (33 << 20) / Block::SIZE;

/// Working memory of one password check.
#[derive(Default)]
pub(crate) struct Memory(Vec<Block>);

impl Memory {
    /// Returns `count` blocks with arbitrary contents.
    pub(crate) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.capacity() < count {
            self.0 = Vec::with_capacity(count.max(MMAP_BLOCKS));
        }
        if self.0.len() < count {
            self.0.resize(count, Block::default());
        }
        &mut self.0[..count]
    }
}

/// Unused memory, at most one per thread.
#[derive(Default)]
pub(crate) struct MemoryPool(Mutex<Vec<Memory>>);

impl MemoryPool {
    /// Takes memory that was used before, or an empty one.
    pub(crate) fn take(&self) -> Memory {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps memory for the next check if one is waiting; otherwise frees all unused memory.
    pub(crate) fn give_back(&self, memory: Memory, is_awaited: bool) {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pool.push(memory);
        let freed = if is_awaited { Vec::new() } else { std::mem::take(&mut *pool) };
        drop(pool);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_freed_without_waiters() {
        let pool = MemoryPool::default();
        let (mut one, two) = (pool.take(), pool.take());
        assert_eq!(one.blocks(10).len(), 10);
        assert!(one.0.capacity() >= MMAP_BLOCKS);
        pool.give_back(one, true);
        let reused = pool.take();
        assert_eq!(reused.0.len(), 10, "the memory is reused");
        pool.give_back(reused, true);
        pool.give_back(two, false);
        assert!(pool.0.lock().unwrap().is_empty());
    }
}
