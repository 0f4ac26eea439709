//! The limit of concurrent connections, over all addresses and processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of open connections, over all addresses and processors.
#[derive(Debug, Default)]
pub struct ConnectionLimit(AtomicUsize);

/// One connection's permit, released on drop.
#[must_use = "the permit is released when it is dropped"]
#[derive(Debug)]
pub struct ConnectionPermit(Arc<ConnectionLimit>);

impl ConnectionLimit {
    /// Returns a permit if fewer than `most` are in use.
    pub fn try_acquire(self: &Arc<Self>, most: usize) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(self.clone());
        // Relaxed: the counter guards no other memory.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_up_to_the_limit() {
        let limit = Arc::new(ConnectionLimit::default());
        let first = limit.try_acquire(2).unwrap();
        let second = limit.try_acquire(2).unwrap();
        assert!(limit.try_acquire(2).is_none());
        drop(first);
        // The rejected attempt did not keep a permit.
        let _third = limit.try_acquire(2).unwrap();
        assert!(limit.try_acquire(2).is_none());
        drop(second);
    }
}
