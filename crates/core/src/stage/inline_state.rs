//! Which stages' calls a processor runs inside of their callers.
//!
//! # Safety
//! The counters that [`InlineState`] points to are the processor's, which keeps them as long as it lives;
//! there are some for each stage of its graph, and only such are asked for (keys are checked). A row
//! of arcs is followed, [`InlineState::beyond`] further on, by one of as many counters
//! ([`ProcessorCounters::arcs`]).

use std::cell::Cell;

use crate::metrics::counter::Counter;
use crate::metrics::counters::ProcessorCounters;
use crate::stage::declaration::StageDeclaration;
use crate::stage::local::LocalStage;
use crate::stage_set::StageSet;

/// Children, and children of these, while one operation of a cohort goes on.
const MAX_PER_POLL: u32 = 64;

/// What a processor knows of its direct calls.
pub(crate) struct InlineState {
    /// The stages whose calls are run at once, a bit each.
    stages: Cell<StageSet>,
    /// Those of which they may be.
    able: StageSet,
    /// Of these, those whose operations may become a part of their callers.
    plain: StageSet,
    /// Those of `stages` whose operations do.
    inside: Cell<StageSet>,
    pub(crate) depth: Cell<u32>,
    /// How many more the operation of the cohort that is being polled may run.
    left: Cell<u32>,
    /// Where the arcs from each stage begin; some in vain, so that no number is out of bounds.
    rows: Box<[*const Counter; 64]>,
    /// How far behind an arc its operations are counted that were a part of their callers.
    pub(crate) beyond: usize,
}

impl InlineState {
    pub(crate) fn new(
        declared: &[StageDeclaration],
        stages: &[LocalStage],
        counters: &ProcessorCounters,
    ) -> Self {
        let able = |(declared, stage): (&StageDeclaration, &LocalStage)| {
            let alone = stage.local.gate.is_none() && stage.local.batch.is_none();
            alone
                && !stage.runtime.hold_policy.is_some()
                && stage.runtime.end_of_cohort.is_none()
                && !declared.balanced
        };
        let able = StageSet::select(declared.iter().zip(stages), able);
        let bounded = StageSet::select(stages, |stage| stage.runtime.capacity.is_some());
        let plain = able.difference(bounded);
        let row = |n: usize| match n < stages.len() {
            true => counters.local_row(n).as_ptr(),
            false => std::ptr::null(),
        };
        let chosen = StageSet::select(declared, |stage| stage.direct);
        Self {
            stages: Cell::new(chosen.intersection(able)),
            able,
            depth: Cell::new(0),
            plain,
            inside: Cell::new(chosen.intersection(plain)),
            left: Cell::new(0),
            rows: Box::new(std::array::from_fn(row)),
            beyond: counters.beyond(),
        }
    }

    /// Runs the calls of exactly these stages at once, as far as may be.
    pub(crate) fn choose(&self, stages: StageSet) {
        self.stages.set(stages.intersection(self.able));
        self.inside.set(stages.intersection(self.plain));
    }

    #[inline(always)]
    pub(crate) fn has(&self, stage: u8) -> bool {
        self.stages.get().contains(stage.into())
    }

    /// Whether a child is being run inside of its caller.
    pub(crate) fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// The same for operations that become a part of their callers.
    #[inline(always)]
    pub(crate) fn has_inside(&self, stage: u8) -> bool {
        self.inside.get().contains(stage.into())
    }

    /// An operation of a cohort is about to be polled.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.left.set(MAX_PER_POLL);
    }

    /// Whether one more may run inside of the operation that is polled; then it is counted.
    #[inline(always)]
    pub(crate) fn allows(&self) -> bool {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => false,
        }
    }

    /// Where the arcs from a stage begin in the counters.
    #[inline(always)]
    pub(crate) fn row(&self, stage: u8) -> *const Counter {
        self.rows[usize::from(stage & 63)]
    }
}
