//! Places for connections: as many as there may be at once, over all addresses and processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are taken.
#[derive(Default)]
pub(crate) struct Places(AtomicUsize);

/// A connection's place, free again when it is dropped.
pub(crate) struct Place(Arc<Places>);

impl Places {
    /// A place, if fewer than `most` are taken.
    pub(crate) fn take(self: &Arc<Self>, most: usize) -> Option<Place> {
        let place = Place(self.clone());
        // A number and nothing else: nobody reads memory by it.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_may_be() {
        let places = Arc::new(Places::default());
        let first = places.take(2).unwrap();
        let second = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        drop(first);
        // Who got none has none.
        let _third = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        drop(second);
    }
}
