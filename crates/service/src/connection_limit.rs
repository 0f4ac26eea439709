//! The limit on concurrent connections, over all addresses and processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::metrics::Gauge;

/// The number of open connections, over all addresses and processors.
#[derive(Debug, Default)]
pub struct ConnectionLimit {
    open: AtomicUsize,
    /// Shows the number to operators.
    gauge: Option<Gauge>,
}

/// One connection's permit, released on drop.
#[must_use = "the permit is released when it is dropped"]
#[derive(Debug)]
pub struct ConnectionPermit(Arc<ConnectionLimit>);

impl ConnectionLimit {
    /// A limit whose number of open connections `gauge` shows.
    pub fn with_gauge(gauge: Gauge) -> Self {
        Self { open: AtomicUsize::new(0), gauge: Some(gauge) }
    }

    /// Returns a permit if fewer than `max` are in use.
    pub fn try_acquire(self: &Arc<Self>, max: usize) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(self.clone());
        // Relaxed, because the counter guards no other memory.
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        self.gauge.iter().for_each(|gauge| gauge.add(1));
        (before < max).then_some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.gauge.iter().for_each(|gauge| gauge.add(-1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_up_to_the_limit() {
        let gauge = Gauge::new("open", "Open connections.");
        let limit = Arc::new(ConnectionLimit::with_gauge(gauge.clone()));
        let first = limit.try_acquire(2).unwrap();
        let second = limit.try_acquire(2).unwrap();
        assert!(limit.try_acquire(2).is_none());
        drop(first);
        // The rejected attempt did not keep a permit.
        let _third = limit.try_acquire(2).unwrap();
        assert!(limit.try_acquire(2).is_none());
        assert_eq!(gauge.get(), 2);
        drop(second);
    }
}
