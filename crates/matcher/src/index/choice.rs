//! Whether events wait at the pieces of a schema, or are matched as they come.
//!
//! Waiting pays where several events of a queue meet in one cluster, since the cluster is then read once for
//! them; it costs a moment for each. How often they meet follows from how many come and how many clusters there
//! are, so it is counted: where it does not pay, the schema's pieces are looked into at once for a while, and
//! then it is tried again.

use super::matching::Read;

/// Nanoseconds to queue an event at a piece and to sort it there.
const QUEUE: f64 = 30.0;
/// Bytes that come from the next farther memory in a nanosecond, beside the checks that are made meanwhile.
const BYTES: f64 = 20.0;
/// Visits after which it is decided.
const LOOK: usize = 2048;
/// Events that then pass without waiting.
const AGAIN: u32 = 64 * 1024;

/// What is known of one schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Events that pass before the next one waits.
    pass: u32,
    /// Since the last decision.
    visits: usize,
    /// Nanoseconds of reading that were saved meanwhile.
    saved: f64,
}

impl Choice {
    /// Whether the next event waits.
    #[inline]
    pub(crate) fn queues(&mut self) -> bool {
        self.pass == 0 || {
            self.pass -= 1;
            false
        }
    }

    /// A piece has run with so many events.
    pub(crate) fn note(&mut self, visits: usize, read: Read) {
        self.visits += visits;
        let of_a_cluster = read.bytes as f64 / read.clusters.max(1) as f64;
        self.saved += (visits - read.clusters) as f64 * of_a_cluster / BYTES;
        if self.visits >= LOOK {
            if self.saved < QUEUE * self.visits as f64 {
                self.pass = AGAIN;
            }
            (self.visits, self.saved) = (0, 0.0);
        }
    }
}
