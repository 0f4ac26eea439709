//! Recording of a processor's cohorts for a trace.

use std::sync::atomic::Ordering::Relaxed;

use crate::metrics::recorder::CohortRecord;
use crate::processor::processor::Processor;

impl Processor {
    /// Records a cohort that has just ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_cohort(&self, stage: usize, start: u64, size: u64, queued: usize) {
        let stages = self.stages.len();
        let mut recording = self.observe.counters.recorder.lock();
        let recording = &mut *recording;
        if recording.arcs.is_empty() {
            return; // the trace has ended in the meantime
        }
        let row = stage * stages..(stage + 1) * stages;
        let last_count = recording.arcs[row.clone()].iter_mut();
        let mut invoked = 0;
        for (to, (last_count, at)) in last_count.zip(row).enumerate() {
            if std::mem::replace(last_count, self.observe.counters.arc(at)) != *last_count {
                invoked |= 1 << to;
            }
        }
        let crossed = recording.crossed.take();
        if recording.records.len() == recording.capacity {
            self.observe.counters.recorder.dropped.fetch_add(1, Relaxed);
            return;
        }
        recording.records.push(CohortRecord {
            stage: stage as u8,
            size: size as u32,
            queued: queued as u32,
            start_ns: start,
            end_ns: self.now(),
            invoked,
            crossed,
        });
    }

    /// Runs `f`, which queues an operation that a stage of another processor has sent, and records the origin.
    pub(crate) fn arriving_from<R>(&self, processor: u16, stage: u8, f: impl FnOnce() -> R) -> R {
        if self.observe.counters.recorder.is_on() {
            self.observe.counters.recorder.lock().crossed = Some((processor, stage));
        }
        self.on_behalf_of(processor, stage, f)
    }
}
