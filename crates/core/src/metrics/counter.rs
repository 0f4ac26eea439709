//! Counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer.
#[derive(Default, Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        if cfg!(not(uncounted)) {
            self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
        }
    }

    #[inline]
    pub(crate) fn raise_to(&self, n: u64) {
        if cfg!(not(uncounted)) && n > self.0.load(Relaxed) {
            self.0.store(n, Relaxed);
        }
    }

    pub(crate) fn set(&self, n: u64) {
        if cfg!(not(uncounted)) {
            self.0.store(n, Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
