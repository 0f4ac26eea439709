//! The number of sessions, which `max-sessions` limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use phalanx::metrics::Gauge;

/// The places of sessions. Clones share them.
#[derive(Clone)]
pub(crate) struct Places {
    sessions: Gauge,
    /// Reserved places of sessions that are about to move here.
    reserved: Arc<AtomicI64>,
}

/// A reserved place. Dropping it frees the place.
pub(crate) struct Place(Arc<AtomicI64>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    /// The places that these sessions take.
    pub(crate) fn of(sessions: &Gauge) -> Self {
        Self { sessions: sessions.clone(), reserved: Arc::default() }
    }

    /// The number of places in use.
    fn used(&self) -> i64 {
        self.sessions.get() + self.reserved.load(Ordering::Relaxed)
    }

    /// Whether all of `most` places are in use. Concurrent changes may not be included, so each processor may exceed the
    /// limit by one session.
    pub(crate) fn are_used(&self, most: usize) -> bool {
        self.used() >= i64::try_from(most).unwrap_or(i64::MAX)
    }

    /// Reserves one of `most` places, unless all are in use.
    pub(crate) fn reserve(&self, most: usize) -> Option<Place> {
        if self.are_used(most) {
            return None;
        }
        self.reserved.fetch_add(1, Ordering::Relaxed);
        Some(Place(self.reserved.clone()))
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
        assert!(place.is_some() && places.are_used(2) && places.reserve(2).is_none());
        drop(place);
        assert!(!places.are_used(2) && places.are_used(1) && !places.are_used(usize::MAX));
    }
}
