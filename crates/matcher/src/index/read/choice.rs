//! Decides for each schema whether events wait at its pieces or are matched on arrival.
//!
//! Waiting pays off where several queued events visit the same cluster, which is then read once for all of them. It
//! costs a few nanoseconds per event. The saving is measured. If waiting does not pay off, events of the schema are
//! matched on arrival for a while, and then waiting is tried again.

use super::matching::Read;

/// Nanoseconds to queue an event at a piece and to sort it there.
const QUEUE: f64 = 30.0;
/// Bytes per nanosecond that the next level of memory delivers while checks run.
const BYTES: f64 = 20.0;
/// Number of visits per decision.
const VISITS_PER_DECISION: usize = 2048;
/// Number of events matched on arrival before waiting is tried again.
const EVENTS_BETWEEN_TRIALS: u32 = 64 * 1024;

/// Measurements of one schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Number of events still to be matched on arrival before the next trial.
    unqueued_events: u32,
    /// Visits since the last decision.
    visits: usize,
    /// Nanoseconds of reading saved since the last decision.
    saved: f64,
}

impl Choice {
    /// Whether the next event waits.
    #[inline]
    pub(crate) fn queues(&mut self) -> bool {
        self.unqueued_events == 0 || {
            self.unqueued_events -= 1;
            false
        }
    }

    /// Records a run of a piece for this number of events.
    pub(crate) fn note(&mut self, visits: usize, read: Read) {
        self.visits += visits;
        let of_a_cluster = read.bytes as f64 / read.clusters.max(1) as f64;
        self.saved += (visits - read.clusters) as f64 * of_a_cluster / BYTES;
        if self.visits >= VISITS_PER_DECISION {
            if self.saved < QUEUE * self.visits as f64 {
                self.unqueued_events = EVENTS_BETWEEN_TRIALS;
            }
            (self.visits, self.saved) = (0, 0.0);
        }
    }
}
