//! The number of sessions, which `max-sessions` limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use phalanx::metrics::Gauge;

/// The places of sessions. Clones share them.
#[derive(Clone)]
pub(crate) struct Places {
    sessions: Gauge,
    /// The number of places of copies, and of reserved ones. A copy is a session that another node has or may have. Reserved
    /// places are for sessions that are about to move here.
    others: Arc<AtomicI64>,
}

/// A reserved place. Dropping it frees the place.
pub(crate) struct Place(Arc<AtomicI64>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    /// The places that these sessions take. The gauge does not count copies, so that the sum over all nodes is the number of
    /// sessions.
    pub(crate) fn of(sessions: &Gauge) -> Self {
        Self { sessions: sessions.clone(), others: Arc::default() }
    }

    /// Counts sessions or copies that begin or end.
    pub(crate) fn add(&self, are_copies: bool, more: i64) {
        match are_copies {
            false => self.sessions.add(more),
            true => _ = self.others.fetch_add(more, Ordering::Relaxed),
        }
    }

    /// Moves the count when a session becomes a copy, or a copy a session.
    pub(crate) fn set_copy(&self, is_copy: bool) {
        // In this order, so that no place is free meanwhile.
        self.add(is_copy, 1);
        self.add(!is_copy, -1);
    }

    fn count_used(&self) -> i64 {
        self.sessions.get() + self.others.load(Ordering::Relaxed)
    }

    /// Whether all of `limit` places are in use. Concurrent changes may not be included, so each processor may exceed
    /// the limit by one session.
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        self.count_used() >= i64::try_from(limit).unwrap_or(i64::MAX)
    }

    /// Reserves one of `limit` places, unless all are in use.
    pub(crate) fn reserve(&self, limit: usize) -> Option<Place> {
        if self.is_full(limit) {
            return None;
        }
        self.others.fetch_add(1, Ordering::Relaxed);
        Some(Place(self.others.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_place_is_in_use() {
        let sessions = Gauge::new("sessions", "Sessions.");
        let places = Places::of(&sessions);
        sessions.add(1);
        let place = places.reserve(2);
        assert!(place.is_some() && places.is_full(2) && places.reserve(2).is_none());
        drop(place);
        assert!(!places.is_full(2) && places.is_full(1) && !places.is_full(usize::MAX));
        places.set_copy(true);
        assert!(places.is_full(1) && sessions.get() == 0);
        places.add(true, -1);
        assert!(!places.is_full(1));
    }
}
