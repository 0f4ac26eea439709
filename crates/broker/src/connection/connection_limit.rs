//! ConnectionLimit for connections: as many as there may be at once, over all addresses and processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are taken.
#[derive(Default)]
pub(crate) struct ConnectionLimit(AtomicUsize);

/// A connection's place, free again when it is dropped.
pub(crate) struct ConnectionPermit(Arc<ConnectionLimit>);

impl ConnectionLimit {
    /// A place, if fewer than `most` are taken.
    pub(crate) fn try_acquire(self: &Arc<Self>, most: usize) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(self.clone());
        // A number and nothing else: nobody reads memory by it.
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
    fn as_many_as_there_may_be() {
        let limit = Arc::new(ConnectionLimit::default());
        let first = limit.try_acquire(2).unwrap();
        let second = limit.try_acquire(2).unwrap();
        assert!(limit.try_acquire(2).is_none());
        drop(first);
        // Who got none has none.
        let _third = limit.try_acquire(2).unwrap();
        assert!(limit.try_acquire(2).is_none());
        drop(second);
    }
}
