//! A trace: every cohort of a while, for a time line. Off until somebody asks for one.
//!
//! A processor that is not traced pays one relaxed load for each cohort. While it is, it writes one
//! record of fixed size for each, into memory that was set aside at the start; what does not fit is
//! counted and dropped. Which stages a cohort invoked is read off the arcs that are counted anyhow:
//! the row of its stage changed in those columns. The lock is the processor's own but for the
//! moments when the asker takes the records.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::metrics::recorder::CohortRecord;
use crate::program::program::{Control, Program};

/// A trace that is being taken; it ends when this is dropped.
///
/// ```
/// use phalanx_core::Graph;
///
/// let seeds = Graph::new().build(1);
/// let control = seeds[0].control();
/// let trace = control.trace(1000).expect("nobody else takes one");
/// assert!(control.trace(1000).is_none());
/// // … the program runs …
/// assert!(trace.take(0).is_empty());
/// drop(trace);
/// assert!(control.trace(1000).is_some());
/// ```
pub struct Trace(Arc<Program>);

impl Control {
    /// Begins to record every cohort, at most `capacity` on each processor; a record takes 64
    /// bytes. None while another trace is being taken.
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
    /// Ends the recording; what was recorded can still be taken.
    pub fn stop(&self) {
        for counters in &self.0.counters {
            counters.recorder.on.store(false, Relaxed);
        }
    }

    /// Takes what was recorded so far on a processor, oldest first. What was taken makes no room.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn take(&self, processor: usize) -> Vec<CohortRecord> {
        let mut recording = self.0.counters[processor].recorder.lock();
        let taken = std::mem::take(&mut recording.records);
        recording.capacity -= taken.len();
        taken
    }

    /// Cohorts of a processor that found no room.
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
