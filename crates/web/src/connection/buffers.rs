//! Buffers of connections that have something to do, lent by their processor. An idle connection holds
//! none, so what a hundred thousand of them take does not depend on what they were sent before; and the
//! buffer that was used last is used next, while the cache still has it.

use std::cell::RefCell;

/// Buffers kept for the next connection that wants one, on each processor.
const KEPT: usize = 256;
/// Larger ones are given back to the system, in bytes: they hold what was gathered, at most.
const LARGEST: usize = 128 * 1024;
/// Up to so many bytes a connection keeps what it has received into: an ordinary request's head.
const SMALL: usize = 1024;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with the memory of the last one that was given back.
pub(crate) fn take() -> Vec<u8> {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a buffer back.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if (1..=LARGEST).contains(&buffer.capacity()) {
        buffer.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < KEPT {
                pool.push(buffer);
            }
        });
    }
}

/// Frees an empty buffer that an idle connection should not hold.
pub(super) fn rest(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > SMALL {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_the_next() {
        give(Vec::with_capacity(100));
        give(vec![7; 200]);
        give(Vec::new());
        give(Vec::with_capacity(LARGEST + 1));
        let first = take();
        assert!(first.is_empty() && first.capacity() >= 200);
        assert!((100..200).contains(&take().capacity()));
        assert_eq!(take().capacity(), 0);
        (0..2 * KEPT).for_each(|_| give(Vec::with_capacity(10)));
        assert_eq!(POOL.with_borrow(Vec::len), KEPT);
    }

    #[test]
    fn an_idle_connection_keeps_little() {
        let mut small = Vec::with_capacity(SMALL);
        rest(&mut small);
        assert_eq!(small.capacity(), SMALL);
        let mut large = Vec::with_capacity(SMALL + 1);
        rest(&mut large);
        assert_eq!(large.capacity(), 0);
        let mut used = vec![7; SMALL + 1];
        rest(&mut used);
        assert_eq!(used.len(), SMALL + 1, "what is not read yet stays");
    }
}
