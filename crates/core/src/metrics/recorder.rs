//! The recorder of a processor's cohorts for a trace.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::sync::unpoison;

/// A cohort recorded in a trace. Times are times of the program's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortRecord {
    /// The stage's number in wavefront order.
    pub stage: u8,
    /// The number of operations run.
    pub size: u32,
    /// The number of operations queued when the cohort began.
    pub queued: u32,
    /// The start of the cohort, in nanoseconds.
    pub start_ns: u64,
    /// The end of the cohort, in nanoseconds.
    pub end_ns: u64,
    /// The stages of this processor on which the cohort invoked or woke operations, as a bit mask: bit `n` is stage
    /// `n`.
    pub invoked: u64,
    /// The origin of the last operation from another processor: that processor, and the stage that was running there,
    /// or the number of stages if none was. `None` if there was no such operation.
    pub crossed: Option<(u16, u8)>,
}

const _: () = assert!(size_of::<CohortRecord>() == 40, "documented at `Control::trace`");

#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) records: Vec<CohortRecord>,
    pub(crate) capacity: usize,
    /// The arc counters at the last comparison.
    pub(crate) arcs: Vec<u64>,
    pub(crate) crossed: Option<(u16, u8)>,
}

/// One processor's recorder.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) on: AtomicBool,
    pub(crate) dropped: AtomicU64,
    recording: Mutex<Recording>,
}

impl Recorder {
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Recording> {
        unpoison(self.recording.lock())
    }

    pub(crate) fn begin(&self, capacity: usize, arcs: Vec<u64>) {
        *self.lock() =
            Recording { records: Vec::with_capacity(capacity), capacity, arcs, crossed: None };
        self.dropped.store(0, Relaxed);
        self.on.store(true, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.on.store(false, Relaxed);
        *self.lock() = Recording::default();
    }
}
