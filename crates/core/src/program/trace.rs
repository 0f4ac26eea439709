//! A trace: every cohort of a while, for a time line. Off until somebody asks for one.
//!
//! A processor that is not traced pays one relaxed load for each cohort. While it is, it writes one
//! record of fixed size for each, into memory that was set aside at the start; what does not fit is
//! counted and dropped. Which stages a cohort invoked is read off the arcs that are counted anyhow:
//! the row of its stage changed in those columns. The lock is the processor's own but for the
//! moments when the asker takes the records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::counters::ProcessorCounters;
use crate::processor::processor::Processor;
use crate::program::program::{Control, Program};

/// One cohort that ran while a trace was taken. Times are those of the program's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortRecord {
    /// The stage's number in wavefront order.
    pub stage: u8,
    /// Operations run.
    pub size: u32,
    /// Operations that were queued when it began.
    pub queued: u32,
    /// When it began, in nanoseconds.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The stages of this processor that it invoked or re-enabled operations at: bit `n` is stage `n`.
    pub invoked: u64,
    /// Of the operations that came from other processors, who sent the last: processor and stage
    /// (the number of stages if none ran there).
    pub crossed: Option<(u16, u8)>,
}

#[derive(Default)]
struct Recording {
    records: Vec<CohortRecord>,
    capacity: usize,
    /// The counts of the arcs when they were last looked at.
    arcs: Vec<u64>,
    crossed: Option<(u16, u8)>,
}

/// One processor's recorder.
#[derive(Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    dropped: AtomicU64,
    recording: Mutex<Recording>,
}

impl Recorder {
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, capacity: usize, counters: &ProcessorCounters) {
        let arcs = (0..counters.local_arcs().len()).map(|at| counters.arc(at)).collect();
        *self.lock() =
            Recording { records: Vec::with_capacity(capacity), capacity, arcs, crossed: None };
        self.dropped.store(0, Relaxed);
        self.on.store(true, Relaxed);
    }

    fn end(&self) {
        self.on.store(false, Relaxed);
        *self.lock() = Recording::default();
    }
}

impl Processor {
    /// Records a cohort that has just ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_cohort(&self, stage: usize, start: u64, size: u64, queued: usize) {
        let stages = self.stages.len();
        let mut recording = self.counters.recorder.lock();
        let recording = &mut *recording;
        if recording.arcs.is_empty() {
            return; // the trace ended meanwhile
        }
        let row = stage * stages..(stage + 1) * stages;
        let seen = recording.arcs[row.clone()].iter_mut();
        let mut invoked = 0;
        for (to, (seen, at)) in seen.zip(row).enumerate() {
            if std::mem::replace(seen, self.counters.arc(at)) != *seen {
                invoked |= 1 << to;
            }
        }
        let crossed = recording.crossed.take();
        if recording.records.len() == recording.capacity {
            self.counters.recorder.dropped.fetch_add(1, Relaxed);
            return;
        }
        recording.records.push(CohortRecord {
            stage: stage as u8,
            size: size as u32,
            queued: queued as u32,
            start_ns: start,
            end_ns: self.now.get(),
            invoked,
            crossed,
        });
    }

    /// Queues by `f` an operation that came from a stage of another processor, and notes that.
    pub(crate) fn arriving_from<R>(&self, processor: u16, stage: u8, f: impl FnOnce() -> R) -> R {
        if self.counters.recorder.is_on() {
            self.counters.recorder.lock().crossed = Some((processor, stage));
        }
        self.on_behalf_of(processor, stage, f)
    }
}

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
            counters.recorder.begin(capacity, counters);
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
