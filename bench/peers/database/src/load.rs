//! The callers of all arms: each repeats its query until the measurement ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The query of the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Insert,
    Select,
}

impl Scene {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Insert => "INSERT INTO orders (customer, cents) VALUES ($1, $2) RETURNING id",
            Self::Select => "SELECT id, customer, cents FROM orders WHERE id = $1",
        }
    }
}

/// A number of callers, and their progress.
pub(crate) struct Load {
    pub(crate) scene: Scene,
    pub(crate) callers: usize,
    /// The server's Unix socket.
    pub(crate) socket: PathBuf,
    pub(crate) stop: AtomicBool,
    pub(crate) finished: AtomicU64,
    next_key: AtomicI64,
}

impl Load {
    pub(crate) fn new(scene: Scene, callers: usize, socket: PathBuf) -> Self {
        let (stop, finished, next_key) = Default::default();
        Self { scene, callers, socket, stop, finished, next_key }
    }

    /// A number for the next query, in pseudo-random order.
    pub(crate) fn key(&self) -> i64 {
        1 + self.next_key.fetch_add(7919, Ordering::Relaxed) % 100_000
    }

    /// Counts a query. Returns whether its caller continues.
    pub(crate) fn finish(&self) -> bool {
        self.finished.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}
