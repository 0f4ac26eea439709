//! What a stage has asked for that is looked at once a cohort, or less; and what is noted as often.

use std::cell::Cell;

use crate::control::interval_min::IntervalMin;
use crate::operation::slot::{Slot, VTable};
use crate::queue::local::{StageQueue, StarvationGuard};
use crate::stage::capacity::CapacityLimit;
use crate::stage::declaration::{EndOfCohort, LocalState, StageDeclaration};
use crate::stage::limits::{HoldPolicy, Threshold};

/// What a stage has asked for that is looked at once a cohort, or less.
pub(crate) struct StageRuntime {
    pub(crate) threshold: Threshold,
    pub(crate) hold_policy: HoldPolicy,
    pub(crate) capacity: CapacityLimit,
    pub(crate) end_of_cohort: Option<EndOfCohort>,
    /// Since when envelopes wait here, as far as was looked.
    pub(crate) remote_since: Cell<Option<u64>>,
    /// Whether the last cohort that found envelopes and local operations began with envelopes.
    pub(crate) remote_first: Cell<bool>,
    /// The widest class of its operations, as far as was looked.
    pub(crate) class: Cell<u8>,
    /// The type of operation that was last seen to be its oldest.
    pub(crate) seen: Cell<&'static VTable>,
    /// Bytes that a request of it has beside the operation.
    pub(crate) beside: usize,
    /// How long its cohorts of this interval have found work waiting.
    pub(crate) waits: IntervalMin,
}

impl StageRuntime {
    pub(crate) fn new(declared: &StageDeclaration) -> Self {
        Self {
            threshold: declared.threshold,
            hold_policy: declared.hold_policy,
            capacity: CapacityLimit::new(declared.capacity),
            end_of_cohort: declared.end_of_cohort.clone(),
            remote_since: Cell::new(None),
            remote_first: Cell::new(false),
            class: Cell::new(0),
            seen: Cell::new(&VTable::NONE),
            beside: declared.objects.iter().map(|(_, bytes)| bytes).sum(),
            waits: IntervalMin::default(),
        }
    }
}

/// One stage on this processor.
#[repr(align(64))]
pub(crate) struct LocalStage {
    pub(crate) queue: StageQueue<Slot>,
    pub(crate) starvation_guard: StarvationGuard,
    /// Where `local.state` is, as the type that its handle knows.
    pub(crate) state: *const (),
    pub(crate) local: Box<LocalState>,
    pub(crate) max_cohort: Cell<usize>,
    pub(crate) cohort_time: u64,
    pub(crate) lifo: bool,
    pub(crate) runtime: Box<StageRuntime>,
}

// What an invocation touches is near, and stages are found by a shift.
const _: () = assert!(size_of::<LocalStage>() == 128);

impl LocalStage {
    /// Under half of its bound.
    pub(crate) fn has_recovered(&self) -> bool {
        self.queue.len() < self.runtime.capacity.bound.div_ceil(2)
    }
}
