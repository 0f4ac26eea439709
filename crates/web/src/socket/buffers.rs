//! Pool of I/O buffers, one per processor. An idle connection holds no buffer, so the memory of a hundred
//! thousand idle connections does not depend on their earlier traffic. The pool is a stack: the buffer used
//! last is still in the cache and is reused first.

use std::cell::{Cell, RefCell};

/// Buffers kept in each processor's pool.
const POOL_CAP: usize = 256;
/// Size in bytes above which buffers are freed instead of pooled. Gathered responses fit.
const MAX_POOLED_BYTES: usize = 128 * 1024;
/// Input buffer that an idle connection may keep, in bytes: the head of an ordinary request.
const MAX_IDLE_BYTES: usize = 1024;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static CAP: Cell<usize> = const { Cell::new(POOL_CAP) };
}

/// Sets whether this processor has a pool, or the general allocator provides each buffer.
pub(crate) fn set_pooled(is_pooled: bool) {
    CAP.set(if is_pooled { POOL_CAP } else { 0 });
}

/// Takes an empty buffer from the pool, or creates one.
pub(crate) fn get() -> Vec<u8> {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Returns a buffer to the pool.
pub(crate) fn recycle(mut buffer: Vec<u8>) {
    if (1..=MAX_POOLED_BYTES).contains(&buffer.capacity()) {
        buffer.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < CAP.get() {
                pool.push(buffer);
            }
        });
    }
}

/// Frees an empty buffer that is too large for an idle connection.
pub(crate) fn shrink_idle(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > MAX_IDLE_BYTES {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_a_stack() {
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
    fn without_the_pool_no_buffer_is_kept() {
        set_pooled(false);
        recycle(Vec::with_capacity(100));
        assert_eq!(get().capacity(), 0);
        set_pooled(true);
        recycle(Vec::with_capacity(100));
        assert_eq!(get().capacity(), 100);
    }

    #[test]
    fn an_idle_connection_keeps_a_small_buffer() {
        let mut small = Vec::with_capacity(MAX_IDLE_BYTES);
        shrink_idle(&mut small);
        assert_eq!(small.capacity(), MAX_IDLE_BYTES);
        let mut large = Vec::with_capacity(MAX_IDLE_BYTES + 1);
        shrink_idle(&mut large);
        assert_eq!(large.capacity(), 0);
        let mut used = vec![7; MAX_IDLE_BYTES + 1];
        shrink_idle(&mut used);
        assert_eq!(used.len(), MAX_IDLE_BYTES + 1, "unread input is kept");
    }
}
