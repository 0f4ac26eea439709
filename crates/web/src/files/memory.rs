//! The memory for content: file bytes in the cache, and bytes held for clients.
//!
//! Every buffer of content counts from its allocation until its last reader drops it. The cache keeps its own
//! bound; what else is held has the spare. A slow client holds content after the cache has evicted it, so
//! only this count bounds what many such clients hold.
//!
//! At the bound nothing fails that can be served with less: files are not compressed, large files are read in
//! small pieces and not ahead, and only new directory listings are refused. Files of up to 64 KiB are always
//! read whole. Each of these is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::metrics::Counter;
use phalanx::net::Bytes;

/// The least memory beside the cache.
const MIN_SPARE: usize = 32 << 20;
/// File bytes that may wait for compression or be compressed at once: about half a second's work, so that
/// nothing is waited for much longer, also when the server ends.
const MAX_COMPRESSING: usize = 64 << 20;

/// A read of a large file, once the bound is reached, has at most so many bytes.
const SMALL_READ: usize = 16 << 10;

/// A bound on bytes that many threads share.
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

    /// Whether the bound is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.0.used.load(Ordering::Relaxed) >= self.0.limit
    }

    /// Counts `bytes`, beyond the bound too.
    pub(crate) fn reserve(&self, bytes: usize) -> Reservation {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        Reservation { budget: self.clone(), bytes }
    }

    /// Counts `bytes`; none if they would exceed the bound.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        let added = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Reservation { budget: self.clone(), bytes })
    }
}

/// Bytes of a [`Budget`], until it is dropped.
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Replaces the counted size by `bytes`.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let used = &self.budget.0.used;
        match bytes.checked_sub(self.bytes) {
            Some(more) => used.fetch_add(more, Ordering::Relaxed),
            None => used.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }

    /// `content`, which counts from now on until its last slice is dropped.
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

/// Content and its reservation.
struct Held {
    content: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

/// The bounds on a server's content, and how often each was reached.
#[derive(Clone)]
pub(crate) struct Memory {
    /// All content.
    pub(crate) content: Budget,
    /// File bytes that wait for compression or are being compressed.
    pub(crate) compressing: Budget,
    /// Files that were not compressed, and sent as they are.
    pub(crate) uncompressed: Counter,
    /// Reads of large files in small pieces.
    pub(crate) small_reads: Counter,
    /// Listings that were refused.
    pub(crate) listings_refused: Counter,
}

impl Memory {
    /// For a cache of `cache_bytes`: clients may hold half as much again, and at least [`MIN_SPARE`].
    pub(crate) fn new(cache_bytes: usize) -> Self {
        let limit = cache_bytes.saturating_add((cache_bytes / 2).max(MIN_SPARE));
        Self {
            content: Budget::new(limit),
            compressing: Budget::new(MAX_COMPRESSING),
            uncompressed: Counter::new(
                "phalanx_web_compressions_refused",
                "Files sent uncompressed because too many wait for compression or too much content is in memory.",
            ),
            small_reads: Counter::new(
                "phalanx_web_small_reads",
                "Reads of large files in small pieces because too much content is in memory.",
            ),
            listings_refused: Counter::new(
                "phalanx_web_listings_refused",
                "Directory listings answered with 503 because too much content is in memory.",
            ),
        }
    }

    /// How many bytes of a large file to read at once, where `wanted` are to be sent.
    pub(crate) fn read_size(&self, wanted: usize) -> usize {
        if wanted <= SMALL_READ || !self.content.is_full() {
            return wanted;
        }
        self.small_reads.add(1);
        SMALL_READ
    }

    /// The counters for the program's metrics.
    pub(crate) fn counters(&self) -> [&Counter; 3] {
        [&self.uncompressed, &self.small_reads, &self.listings_refused]
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
        assert_eq!(used(&budget), 60, "as much as there is, not as was expected");
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
    fn a_small_cache_has_room_beside_it() {
        for (cache, limit) in [(0, MIN_SPARE), (64 << 20, 96 << 20), (1 << 30, 3 << 29)] {
            assert_eq!(Memory::new(cache).content.0.limit, limit);
        }
    }

    #[test]
    fn reads_are_small_at_the_bound() {
        let memory = Memory::new(0);
        assert_eq!(memory.read_size(1 << 20), 1 << 20);
        let held = memory.content.reserve(MIN_SPARE);
        assert_eq!((memory.read_size(1 << 20), memory.read_size(100)), (SMALL_READ, 100));
        drop(held);
        assert_eq!((memory.read_size(1 << 20), memory.small_reads.count()), (1 << 20, 1));
    }
}
