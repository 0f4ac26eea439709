//! Memory limits for content: file bytes in the cache, and bytes held for clients.
//!
//! Every buffer of content counts from its allocation until its last reference is dropped. The cache and all other
//! content have separate limits. Slow clients hold content that the cache has already evicted, so only the second limit
//! bounds the memory of many slow clients.
//!
//! At the limit the server degrades instead of failing: it does not compress files, reads large files in
//! small pieces without read-ahead, and refuses only new directory listings. Files of up to 64 KiB are always
//! read whole. Counters record each of these.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::metrics::Counter;
use phalanx::net::Bytes;

/// Minimum memory for content outside the cache, in bytes.
const MIN_SPARE: usize = 32 << 20;
/// Limit on file bytes that wait for compression or are being compressed: some seconds of work.
const MAX_COMPRESSING: usize = 64 << 20;

/// Size of a read of a large file when the limit is reached, in bytes.
const SMALL_READ: usize = 16 << 10;

/// A limit on bytes, shared by threads.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Inner>);

struct Inner {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0) }))
    }

    /// Whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.0.used.load(Ordering::Relaxed) >= self.0.limit
    }

    /// Reserves `bytes`, even above the limit.
    pub(crate) fn reserve(&self, bytes: usize) -> Reservation {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        Reservation { budget: self.clone(), bytes }
    }

    /// Reserves `bytes`; `None` if they would exceed the limit.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        let added = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Reservation { budget: self.clone(), bytes })
    }
}

/// Reserved bytes of a [`Budget`], released when dropped.
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Changes the reserved size to `bytes`.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let used = &self.budget.0.used;
        match bytes.checked_sub(self.bytes) {
            Some(more) => used.fetch_add(more, Ordering::Relaxed),
            None => used.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }

    /// Wraps `content`; the bytes stay reserved until the last slice is dropped.
    pub(crate) fn hold(mut self, content: Vec<u8>) -> Bytes {
        self.resize(content.capacity());
        Bytes::from_owner(Held { content, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Content with its reservation.
struct Held {
    content: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

/// A server's memory limits, with counters of how often each was reached.
#[derive(Clone)]
pub(crate) struct Memory {
    /// All content.
    pub(crate) content: Budget,
    /// File bytes that wait for compression or are being compressed.
    pub(crate) compressing: Budget,
    /// Files sent uncompressed because of a limit.
    pub(crate) uncompressed: Counter,
    /// Compressions given up because no client waited for them.
    pub(crate) abandoned: Counter,
    /// Reads of large files in small pieces.
    pub(crate) small_reads: Counter,
    /// Listings refused.
    pub(crate) listings_rejected: Counter,
}

impl Memory {
    /// Limits for a cache of `cache_bytes`: clients may hold half as much in addition, at least
    /// [`MIN_SPARE`].
    pub(crate) fn new(cache_bytes: usize) -> Self {
        let limit = cache_bytes.saturating_add((cache_bytes / 2).max(MIN_SPARE));
        Self {
            content: Budget::new(limit),
            compressing: Budget::new(MAX_COMPRESSING),
            uncompressed: Counter::new(
                "phalanx_web_compressions_rejected",
                "Files sent uncompressed because too many wait for compression, too much content is in memory, or the result is too large for the cache.",
            ),
            abandoned: Counter::new(
                "phalanx_web_compressions_abandoned",
                "Compressions given up because all clients that waited had left, or at shutdown.",
            ),
            small_reads: Counter::new(
                "phalanx_web_small_reads",
                "Reads of large files in small pieces because too much content is in memory.",
            ),
            listings_rejected: Counter::new(
                "phalanx_web_listings_rejected",
                "Directory listings answered with 503 because too much content is in memory.",
            ),
        }
    }

    /// Size of the next read of a large file that needs `wanted` bytes.
    pub(crate) fn read_size(&self, wanted: usize) -> usize {
        if wanted <= SMALL_READ || !self.content.is_full() {
            return wanted;
        }
        self.small_reads.add(1);
        SMALL_READ
    }

    /// The counters for the metrics.
    pub(crate) fn counters(&self) -> [&Counter; 4] {
        [&self.uncompressed, &self.abandoned, &self.small_reads, &self.listings_rejected]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(budget: &Budget) -> usize {
        budget.0.used.load(Ordering::Relaxed)
    }

    #[test]
    fn content_counts_until_its_last_slice_is_dropped() {
        let budget = Budget::new(100);
        let bytes = budget.reserve(1000).hold(vec![7; 60]);
        assert_eq!(used(&budget), 60, "the actual size, not the reserved one");
        let slice = bytes.slice(10..12);
        drop(bytes);
        assert_eq!((used(&budget), &slice[..]), (60, &[7, 7][..]), "a slice keeps all of it");
        assert!(budget.try_reserve(41).is_none() && !budget.is_full());
        let rest = budget.try_reserve(40).expect("it fits");
        assert!(budget.is_full() && budget.try_reserve(1).is_none());
        let beyond = budget.reserve(5);
        assert_eq!(used(&budget), 105);
        drop((slice, rest, beyond));
        assert_eq!(used(&budget), 0);
        assert!(budget.try_reserve(usize::MAX).is_none());
    }

    #[test]
    fn a_small_cache_leaves_memory_for_clients() {
        for (cache, limit) in [(0, MIN_SPARE), (64 << 20, 96 << 20), (1 << 30, 3 << 29)] {
            assert_eq!(Memory::new(cache).content.0.limit, limit);
        }
    }

    #[test]
    fn reads_are_small_at_the_limit() {
        let memory = Memory::new(0);
        assert_eq!(memory.read_size(1 << 20), 1 << 20);
        let held = memory.content.reserve(MIN_SPARE);
        assert_eq!((memory.read_size(1 << 20), memory.read_size(100)), (SMALL_READ, 100));
        drop(held);
        assert_eq!((memory.read_size(1 << 20), memory.small_reads.count()), (1 << 20, 1));
    }
}
