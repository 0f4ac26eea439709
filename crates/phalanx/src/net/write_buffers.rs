//! Memory for writes of borrowed bytes, which are copied because the driver must own the buffers that it sends.

use std::cell::RefCell;

/// The maximum number of bytes that one write takes.
const MAX_WRITE: usize = 64 << 10;
/// The maximum number of idle buffers that a thread keeps. Idle streams have no buffers.
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

/// Keeps the empty memory of a write for reuse by this thread.
pub(crate) fn recycle(memory: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE && memory.capacity() <= MAX_WRITE {
            spare.push(memory);
        }
    });
}
