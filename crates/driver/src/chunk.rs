//! Received bytes in a pooled buffer. Dropping them returns the buffer to its pool.
//!
//! # Safety
//! A pool is one private anonymous mapping, divided into `count` buffers. At any time, each buffer is owned
//! by exactly one of these: the list `returned`, the driver (for uring: the kernel), or one [`Chunk`].
//! [`Pool::take`] moves a buffer from the list to a chunk. [`Pool::provide`] moves buffers of the list to
//! the driver. [`Pool::claim`] moves one from the driver to a chunk; it is unsafe because the caller must
//! know that the kernel no longer writes to it. Dropping a chunk moves its buffer to the list. Therefore a
//! chunk may return plain slices. The kernel zeroes the mapping, so it is always initialised. It lives as
//! long as the last `Rc` of the driver and the chunks.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::Config;

/// A driver's receive buffers.
pub(crate) struct Pool {
    base: NonNull<u8>,
    size: usize,
    count: u16,
    returned: RefCell<Vec<u16>>,
    lent: Cell<u16>,
}

impl Pool {
    /// A pool with all buffers in its list.
    pub(crate) fn new(config: &Config) -> io::Result<Rc<Pool>> {
        config.check()?;
        let size = config.buffer_size as usize;
        let length = size * usize::from(config.buffers);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let base = NonNull::new(base.cast()).expect("a mapping is not at null");
        // In reverse order, so that the first buffer taken is the first in memory.
        let returned = RefCell::new((0..config.buffers).rev().collect());
        Ok(Rc::new(Pool { base, size, count: config.buffers, returned, lent: Cell::new(0) }))
    }

    /// The size of a buffer, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The number of buffers in the pool.
    #[cfg(target_os = "linux")]
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// The number of buffers that the driver owns, in neither a chunk nor the list.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_driver(&self) -> usize {
        usize::from(self.count - self.lent.get()) - self.returned.borrow().len()
    }

    /// The number of buffers in chunks.
    pub(crate) fn lent(&self) -> usize {
        usize::from(self.lent.get())
    }

    /// Whether [`take`](Self::take) would succeed.
    pub(crate) fn has_returned(&self) -> bool {
        !self.returned.borrow().is_empty()
    }

    /// Takes a whole buffer from the list. It contains stale bytes.
    pub(crate) fn take(self: &Rc<Self>) -> Option<Chunk> {
        let id = self.returned.borrow_mut().pop()?;
        self.lent.set(self.lent.get() + 1);
        Some(Chunk {
            bytes: Bytes::Pooled { pool: Rc::clone(self), id, start: 0, length: self.size },
        })
    }

    /// Moves up to `max` buffers from the list to the driver, the most recently returned first. Passes the number and
    /// the address of each to `add`.
    #[cfg(target_os = "linux")]
    pub(crate) fn provide(&self, max: usize, mut add: impl FnMut(u16, *mut u8)) {
        let mut returned = self.returned.borrow_mut();
        let rest = returned.len().saturating_sub(max);
        for id in returned.drain(rest..).rev() {
            add(id, self.start(id));
        }
    }

    /// Moves the buffer `id`, whose first `length` bytes were received, into a chunk.
    ///
    /// # Safety
    /// The driver owns buffer `id`, and nothing writes to it any more.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn claim(self: &Rc<Self>, id: u16, length: usize) -> Chunk {
        assert!(id < self.count && length <= self.size && self.lent.get() < self.count);
        self.lent.set(self.lent.get() + 1);
        Chunk { bytes: Bytes::Pooled { pool: Rc::clone(self), id, start: 0, length } }
    }

    fn start(&self, id: u16) -> *mut u8 {
        debug_assert!(id < self.count);
        // SAFETY: `id < count`, so the offset is within the mapping.
        unsafe { self.base.as_ptr().add(usize::from(id) * self.size) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool owns the mapping, and the last `Rc` to the pool has been dropped, so no chunk refers to it.
        let unmapped =
            unsafe { munmap(self.base.as_ptr().cast(), self.size * usize::from(self.count)) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Received bytes in a buffer of the driver's pool. Dropping the chunk returns the buffer.
///
/// A chunk may outlive its driver. When all buffers are in chunks, receives wait. So keep a chunk only while you read
/// it, and copy bytes that are needed for longer.
pub struct Chunk {
    bytes: Bytes,
}

enum Bytes {
    /// The end of a stream.
    Empty,
    Pooled {
        pool: Rc<Pool>,
        id: u16,
        /// Bytes at the start of the buffer that are no longer part of the chunk.
        start: u32,
        /// The end of the chunk in the buffer.
        length: usize,
    },
    /// Copied out of the pool when another receive needed the buffer.
    #[cfg(target_os = "linux")]
    Copied { bytes: Box<[u8]>, start: u32 },
}

impl Chunk {
    pub(crate) fn empty() -> Chunk {
        Chunk { bytes: Bytes::Empty }
    }

    /// The whole of a taken buffer, to receive into.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            // SAFETY: the chunk owns the buffer (see the top of the file), `length` is within it, and `&mut
            // self` makes this the only slice of it.
            Bytes::Pooled { pool, id, length, .. } => unsafe {
                std::slice::from_raw_parts_mut(pool.start(*id), *length)
            },
            #[cfg(target_os = "linux")]
            Bytes::Copied { bytes, .. } => bytes,
            Bytes::Empty => &mut [],
        }
    }

    /// Shortens the chunk to the first `new_length` bytes.
    pub(crate) fn truncate(&mut self, new_length: usize) {
        if let Bytes::Pooled { length, .. } = &mut self.bytes {
            assert!(new_length <= *length);
            *length = new_length;
        }
    }

    /// Copies the bytes, and returns the buffer early.
    #[cfg(target_os = "linux")]
    pub(crate) fn detach(&mut self) {
        if matches!(self.bytes, Bytes::Pooled { .. }) {
            self.bytes = Bytes::Copied { bytes: Box::from(&**self), start: 0 };
        }
    }

    /// Splits off a copy of the first `count` bytes. There must be more than that.
    #[cfg(target_os = "linux")]
    pub(crate) fn split_to(&mut self, count: usize) -> Chunk {
        let bytes = Box::from(&self[..count]);
        if let Bytes::Pooled { start, .. } | Bytes::Copied { start, .. } = &mut self.bytes {
            *start += count as u32;
        }
        Chunk { bytes: Bytes::Copied { bytes, start: 0 } }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: the chunk owns the buffer (see the top of the file), `length` is within it, and nothing
            // writes to it while `self` is borrowed.
            Bytes::Pooled { pool, id, start, length } => unsafe {
                &std::slice::from_raw_parts(pool.start(*id), *length)[*start as usize..]
            },
            #[cfg(target_os = "linux")]
            Bytes::Copied { bytes, start } => &bytes[*start as usize..],
            Bytes::Empty => &[],
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Bytes::Pooled { pool, id, .. } = self {
            pool.lent.set(pool.lent.get() - 1);
            pool.returned.borrow_mut().push(*id);
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(buffers: u16) -> Rc<Pool> {
        Pool::new(&Config { entries: 8, buffers, buffer_size: 16 }).unwrap()
    }

    #[test]
    fn buffers_are_distinct_and_come_back() {
        let pool = pool(3);
        let mut chunks: Vec<Chunk> = (0..3).map(|_| pool.take().unwrap()).collect();
        assert!(pool.take().is_none() && !pool.has_returned());
        for (value, chunk) in chunks.iter_mut().enumerate() {
            chunk.space().fill(value as u8);
            chunk.truncate(5 + value);
        }
        for (value, chunk) in chunks.iter().enumerate() {
            assert_eq!(**chunk, vec![value as u8; 5 + value][..]);
        }
        chunks.pop();
        assert_eq!(pool.take().unwrap().len(), 16);
    }

    #[test]
    fn a_chunk_outlives_its_driver() {
        let pool = pool(1);
        let mut chunk = pool.take().unwrap();
        chunk.space().fill(7);
        drop(pool);
        assert_eq!(*chunk, [7; 16]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_detached_chunk_keeps_its_bytes_and_frees_its_buffer() {
        let pool = pool(1);
        let mut chunk = pool.take().unwrap();
        chunk.space().fill(9);
        chunk.truncate(4);
        chunk.detach();
        let mut other = pool.take().unwrap();
        other.space().fill(1);
        assert_eq!(*chunk, [9; 4]);
        drop((chunk, other));
        assert_eq!(pool.with_driver(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_chunk_is_split() {
        let pool = pool(1);
        let mut chunk = pool.take().unwrap();
        chunk.space().copy_from_slice(b"0123456789abcdef");
        let first = chunk.split_to(4);
        assert_eq!((&*first, &*chunk), (&b"0123"[..], &b"456789abcdef"[..]));
        let second = chunk.split_to(6);
        chunk.detach();
        assert_eq!(pool.lent(), 0);
        let third = chunk.split_to(1);
        assert_eq!((&*second, &*third, &*chunk), (&b"456789"[..], &b"a"[..], &b"bcdef"[..]));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for buffers in [0, 40000] {
            assert!(Pool::new(&Config { buffers, ..Config::default() }).is_err());
        }
        assert!(Pool::new(&Config { buffer_size: 0, ..Config::default() }).is_err());
    }
}
