//! The number of active processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of active processors of a program, which get its new connections: the first ones, by default all.
/// Usable from any thread.
///
/// The other processors still answer on the connections that they have, run their partitions, and sleep when these
/// are idle.
#[derive(Clone, Debug)]
pub struct ActiveProcessors {
    count: Arc<AtomicUsize>,
    all: usize,
}

impl ActiveProcessors {
    pub(crate) fn new(all: usize) -> Self {
        Self { count: Arc::new(AtomicUsize::new(all)), all }
    }

    /// The number of active processors, from 1.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Sets the number, limited to 1 to all. It applies to the next connection that is accepted.
    pub fn set(&self, count: usize) {
        self.count.store(count.clamp(1, self.all), Ordering::Relaxed);
    }
}
