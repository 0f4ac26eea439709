//! The ring of receive buffers, from which the kernel takes one when bytes have arrived.
//!
//! The kernel takes them in turn, so each buffer of the ring is used once before one is used again. The ring therefore
//! contains only as many as a turn needs ([`window`](super::window)): those stay in the caches, and the others are
//! never touched.
//!
//! # Safety
//! The kernel reads the entries from its own head up to the tail that the driver publishes. The driver writes only the
//! entry at the tail, and then publishes it with release ordering. There are at least as many entries as buffers, and
//! every buffer is in at most one place (see `chunk.rs`). So the entry at the tail is never one that the kernel has yet
//! to read. A [`Buffers`] keeps the pool alive. If the driver is dropped while the kernel may still write, it leaks
//! both (see `Uring::drop`).

use std::io;
use std::mem::size_of;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::chunk::{Chunk, Pool};
use crate::uring::ring::queues::Ring;
use crate::uring::ring::window::Window;

/// The only buffer group of a ring.
pub(crate) const GROUP: u16 = 0;

/// The part of a pool that is registered with the kernel.
pub(crate) struct Buffers {
    pool: Rc<Pool>,
    entries: *mut BufRingEntry,
    capacity: u16,
    tail: u16,
    window: Window,
}

impl Buffers {
    /// Registers a buffer ring for `pool` with `ring`, and provides the first of the pool's buffers.
    pub(crate) fn register(ring: &mut Ring, pool: Rc<Pool>) -> io::Result<Buffers> {
        let capacity = pool.count().next_power_of_two();
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
        let entries = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                usize::from(capacity) * size_of::<BufRingEntry>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let window = Window::new(pool.count());
        let mut buffers = Buffers { pool, entries: entries.cast(), capacity, tail: 0, window };
        // SAFETY: a page-aligned mapping of `capacity` entries. The kernel pins its pages, so they outlive even a ring
        // that is closed after the mapping was removed.
        unsafe { ring.register_buffers(buffers.entries as u64, capacity, GROUP)? };
        buffers.give();
        Ok(buffers)
    }

    /// The pool of the buffers.
    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// Provides returned buffers to the kernel again, up to the window. Called before each submission.
    pub(crate) fn give(&mut self) {
        let missing = self.window.turn().saturating_sub(self.pool.with_driver());
        if missing == 0 || !self.pool.has_returned() {
            return;
        }
        let (entries, mask, size) = (self.entries, self.capacity - 1, self.pool.size() as u32);
        let tail = &mut self.tail;
        self.pool.provide(missing, |id, start| {
            // SAFETY: within the mapping because of the mask, and not read by the kernel before the tail
            // below is published. Written field by field, because the first entry overlays the tail.
            let entry = unsafe { &mut *entries.add(usize::from(*tail & mask)) };
            entry.set_addr(start as u64);
            entry.set_len(size);
            entry.set_bid(id);
            *tail = tail.wrapping_add(1);
        });
        // SAFETY: the tail is a naturally aligned field of the first entry, in the mapping. After set-up both
        // sides access it only as an atomic.
        let published = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        published.store(self.tail, Ordering::Release);
    }

    /// Records that a receive found no buffer.
    pub(crate) fn was_starved(&mut self) {
        self.window.was_starved();
    }

    /// The buffer `id`, into which the kernel received `length` bytes.
    pub(crate) fn received(&mut self, id: u16, length: usize) -> Chunk {
        self.window.used();
        // SAFETY: the kernel named the buffer in a completion. It does that once for each time the buffer is
        // provided, and does not write to it afterwards.
        unsafe { self.pool.claim(id, length) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let length = usize::from(self.capacity) * size_of::<BufRingEntry>();
        // SAFETY: this value owns the mapping; the kernel has pinned the pages that it still uses.
        let unmapped = unsafe { munmap(self.entries.cast(), length) };
        debug_assert!(unmapped.is_ok());
    }
}
