//! The part of a stage on one processor.

use std::cell::Cell;

use crate::control::interval_min::IntervalMin;
use crate::operation::size_class::stride;
use crate::operation::slot::{Slot, VTable};
use crate::panic::catch_panic;
use crate::queue::local::StageQueue;
use crate::stage::capacity::CapacityLimit;
use crate::stage::declaration::{EndOfCohort, StageDeclaration, StageParts};
use crate::stage::limits::{HoldPolicy, Threshold};
use crate::stage::settings::Settings;
use crate::stage::starvation_guard::StarvationGuard;

/// The settings and records of a stage that are accessed at most once per cohort.
pub(crate) struct ColdStage {
    pub(crate) threshold: Threshold,
    pub(crate) hold_policy: HoldPolicy,
    pub(crate) capacity: CapacityLimit,
    pub(crate) end_of_cohort: Option<EndOfCohort>,
    /// The time since which envelopes have been waiting here, as last observed.
    remote_since: Cell<Option<u64>>,
    /// Whether the last cohort that found both envelopes and local operations took the envelopes first.
    remote_first: Cell<bool>,
    /// The largest observed size class of the stage's operations.
    max_class: Cell<u8>,
    /// The type of the oldest operation at the last observation.
    last_type: Cell<&'static VTable>,
    /// The bytes of a request's objects, without the operation.
    pub(crate) object_bytes: usize,
    /// The bytes of the largest object that an operation is known or declared to own. The maximum value if objects are
    /// not checked, because the stage declares none and the program has no budget.
    largest_object: Cell<usize>,
    /// The minimum queue delay of its cohorts in this interval.
    pub(crate) queue_delay: IntervalMin,
}

impl ColdStage {
    pub(crate) fn new(declared: &StageDeclaration, settings: Settings, processors: usize) -> Self {
        let has_budget = settings.ingress.has_budget();
        let largest = declared.objects.iter().map(|(_, bytes)| *bytes).max();
        Self {
            threshold: declared.threshold,
            hold_policy: declared.hold_policy,
            capacity: CapacityLimit::new(declared.capacity, processors),
            end_of_cohort: declared.end_of_cohort.clone(),
            remote_since: Cell::new(None),
            remote_first: Cell::new(false),
            max_class: Cell::new(0),
            last_type: Cell::new(&VTable::NONE),
            object_bytes: declared.objects.iter().map(|(_, bytes)| bytes).sum(),
            largest_object: Cell::new(largest.unwrap_or(if has_budget { 0 } else { usize::MAX })),
            queue_delay: IntervalMin::default(),
        }
    }

    /// Records the size class of an operation.
    #[inline(always)]
    pub(crate) fn observe_class(&self, class: u8) {
        self.max_class.set(self.max_class.get().max(class));
    }

    /// Whether this was the type of the oldest operation at the last observation.
    #[inline(always)]
    pub(crate) fn is_last_type(&self, vtable: &'static VTable) -> bool {
        std::ptr::eq(vtable, self.last_type.get())
    }

    pub(crate) fn set_last_type(&self, vtable: &'static VTable) {
        self.last_type.set(vtable);
    }

    /// Whether the next cohort takes envelopes first. Every second one does.
    pub(crate) fn alternate_remote_first(&self) -> bool {
        self.remote_first.set(!self.remote_first.get());
        self.remote_first.get()
    }

    /// The time since which envelopes have been waiting, if some wait at `now`.
    pub(crate) fn remote_since(&self, now: u64) -> u64 {
        let since = self.remote_since.get().unwrap_or(now);
        self.remote_since.set(Some(since));
        since
    }

    /// Records that no envelope is waiting.
    #[inline(always)]
    pub(crate) fn clear_remote_since(&self) {
        self.remote_since.set(None);
    }

    pub(crate) fn largest_object(&self) -> usize {
        self.largest_object.get()
    }

    /// Records a larger object. Returns the previous maximum in bytes.
    pub(crate) fn replace_largest_object(&self, bytes: usize) -> usize {
        self.largest_object.replace(bytes)
    }

    /// The bytes of a request: the slot of its operation, and its objects.
    pub(crate) fn request_bytes(&self) -> usize {
        stride(self.max_class.get()) + self.object_bytes
    }
}

/// One stage on this processor.
#[repr(align(64))]
pub(crate) struct LocalStage {
    pub(crate) queue: StageQueue<Slot>,
    pub(crate) starvation_guard: StarvationGuard,
    /// A pointer to `parts.state`, of the type that the stage's handle uses.
    pub(crate) state: *const (),
    pub(crate) parts: Box<StageParts>,
    pub(crate) max_cohort: Cell<usize>,
    pub(crate) cohort_time: u64,
    pub(crate) lifo: bool,
    pub(crate) cold: Box<ColdStage>,
}

// The size is a power of two, so that indexing an array of stages is a shift. The fields that an invocation accesses
// are adjacent.
const _: () = assert!(size_of::<LocalStage>() == 128);

impl LocalStage {
    /// Whether the queue is below half of its capacity.
    pub(crate) fn has_recovered(&self) -> bool {
        self.queue.len() < self.cold.capacity.bound.div_ceil(2)
    }

    /// Wakes the futures that wait for capacity if the queue has recovered. Called after a cohort.
    #[cold]
    pub(crate) fn wake_capacity_waiters(&self) {
        if self.has_recovered() {
            let waiting = self.cold.capacity.take_waiting();
            waiting.for_each(|waker| catch_panic(|| waker.wake()));
        }
    }
}
