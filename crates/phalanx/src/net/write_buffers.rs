//! Memory for writes whose caller keeps its bytes: they are copied for the driver, which owns the buffers that it sends.

use std::cell::RefCell;

/// The most bytes that one write takes.
const MAX_WRITE: usize = 64 << 10;
/// Idle buffers that a thread keeps, none larger than a write. An idle stream has none.
const MAX_SPARE: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer with the first bytes of `parts`, as many as one write takes.
pub(crate) fn copy<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut buffer = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    for part in parts {
        let room = MAX_WRITE - buffer.len();
        buffer.extend_from_slice(&part[..room.min(part.len())]);
    }
    buffer
}

/// Keeps the memory of a write, which is empty, for the next one of this thread.
pub(crate) fn recycle(memory: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE && memory.capacity() <= MAX_WRITE {
            spare.push(memory);
        }
    });
}
