//! Buffers of connections that have something to do, lent by their processor. An idle connection holds
//! none, so what a hundred thousand of them take does not depend on what they were sent before; and the
//! buffer that was used last is used next, while the cache still has it.

use std::cell::RefCell;

/// Buffers kept for the next connection that wants one, on each processor.
const POOL_CAP: usize = 256;
/// Larger ones are given back to the system, in bytes: they hold what was gathered, at most.
const MAX_POOLED_BYTES: usize = 128 * 1024;
/// Up to so many bytes a connection keeps what it has received into: an ordinary request's head.
const MAX_IDLE_BYTES: usize = 1024;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with the memory of the last one that was given back.
pub(crate) fn get() -> Vec<u8> {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a buffer back.
pub(crate) fn recycle(mut buffer: Vec<u8>) {
    if (1..=MAX_POOLED_BYTES).contains(&buffer.capacity()) {
        buffer.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < POOL_CAP {
                pool.push(buffer);
            }
        });
    }
}

/// Frees an empty buffer that an idle connection should not hold.
pub(super) fn shrink_idle(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > MAX_IDLE_BYTES {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_the_next() {
        recycle(Vec::with_capacity(100));
        recycle(vec![7; 200]);
        recycle(Vec::new());
        recycle(Vec::with_capacity(MAX_POOLED_BYTES + 1));
        let first = get();
        assert!(first.is_empty() && first.capacity() >= 200);
        assert!((100..200).contains(&get().capacity()));
        assert_eq!(get().capacity(), 0);
        (0..2 * POOL_CAP).for_each(|_| recycle(Vec::with_capacity(10)));
        assert_eq!(POOL.with_borrow(Vec::len), POOL_CAP);
    }

    #[test]
    fn an_idle_connection_keeps_little() {
        let mut small = Vec::with_capacity(MAX_IDLE_BYTES);
        shrink_idle(&mut small);
        assert_eq!(small.capacity(), MAX_IDLE_BYTES);
        let mut large = Vec::with_capacity(MAX_IDLE_BYTES + 1);
        shrink_idle(&mut large);
        assert_eq!(large.capacity(), 0);
        let mut used = vec![7; MAX_IDLE_BYTES + 1];
        shrink_idle(&mut used);
        assert_eq!(used.len(), MAX_IDLE_BYTES + 1, "what is not read yet stays");
    }
}
