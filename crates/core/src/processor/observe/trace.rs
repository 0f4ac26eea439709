//! Traces: recording every cohort for some time, to draw a timeline. Off by default.
//!
//! Without a trace, a processor pays one relaxed load per cohort. During a trace, it writes one fixed-size record per
//! cohort into memory that was allocated in advance; records that do not fit are dropped and counted. The stages that a
//! cohort invoked are those whose arc counters changed in its stage's row. The processor takes a lock, which is
//! uncontended except while a reader takes the records.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::metrics::recorder::CohortRecord;
use crate::program::control::Control;
use crate::program::program::Program;

/// A running trace; dropping it ends the trace.
///
/// ```
/// use phalanx_core::Graph;
///
/// let builders = Graph::new().build(1);
/// let control = builders[0].control();
/// let trace = control.trace(1000).expect("nobody else takes one");
/// assert!(control.trace(1000).is_none());
/// // … the program runs …
/// assert!(trace.take(0).is_empty());
/// drop(trace);
/// assert!(control.trace(1000).is_some());
/// ```
pub struct Trace(Arc<Program>);

impl Control {
    /// Begins to record every cohort, in at most `capacity` records of 40 bytes on each processor. Returns `None` while
    /// another trace is running.
    pub fn trace(&self, capacity: usize) -> Option<Trace> {
        if self.0.traced.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return None;
        }
        let trace = Trace(self.0.clone());
        for counters in &self.0.counters {
            let arcs = (0..counters.local_arcs().len()).map(|at| counters.arc(at));
            counters.recorder.begin(capacity, arcs.collect());
        }
        Some(trace)
    }
}

impl Trace {
    /// Ends the recording; the records can still be taken.
    pub fn stop(&self) {
        for counters in &self.0.counters {
            counters.recorder.on.store(false, Relaxed);
        }
    }

    /// Takes the existing records of a processor, oldest first. Taking them does not free capacity.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn take(&self, processor: usize) -> Vec<CohortRecord> {
        let mut recording = self.0.counters[processor].recorder.lock();
        let records = std::mem::take(&mut recording.records);
        recording.capacity -= records.len();
        records
    }

    /// The number of cohorts of a processor that were not recorded because the capacity was exhausted.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn dropped(&self, processor: usize) -> u64 {
        self.0.counters[processor].recorder.dropped.load(Relaxed)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.0.counters.iter().for_each(|counters| counters.recorder.end());
        self.0.traced.store(false, std::sync::atomic::Ordering::Release);
    }
}
