//! Inline calls: the stages whose calls a processor runs inside their callers. Terms:
//!
//! - *direct*: a stage whose calls run inline, by its declaration or by the choice of the cohort tuner.
//! - *inline*: an operation that has its own slot and is polled within its caller's poll
//!   ([`crate::processor::policy::execute::inline`]).
//! - *fused*: an operation that is part of its caller's future ([`crate::handle::policy::run_fused`]).
//!
//! # Safety
//! The processor owns the counters that [`InlineState`] points to, and keeps them for its whole life. They have a row
//! for each stage of its graph. Stages come from checked keys, so their rows exist. Each row of arcs is followed,
//! [`InlineState::arcs_per_part`] counters later, by a second row of the same length, and at the same distance by a
//! third ([`ProcessorCounters::arcs`]).

use std::cell::Cell;

use crate::metrics::counter::Counter;
use crate::metrics::counters::ProcessorCounters;
use crate::stage::declaration::StageDeclaration;
use crate::stage::local::LocalStage;
use crate::stage_set::StageSet;

/// The maximum number of inline descendants that run during one poll of an operation of a cohort.
const MAX_PER_POLL: u32 = 64;

/// The state of a processor's inline calls.
pub(crate) struct InlineState {
    /// The stages whose calls run inline.
    inline: Cell<StageSet>,
    /// The stages whose calls may run inline.
    eligible: StageSet,
    /// The eligible stages whose operations may be fused.
    fusible: StageSet,
    /// The stages of `inline` whose operations are fused.
    fused: Cell<StageSet>,
    pub(crate) depth: Cell<u32>,
    /// The number of inline calls that the operation being polled may still make.
    budget: Cell<u32>,
    /// The row of arcs of each stage. The array has 64 rows, so that no stage number is out of bounds.
    rows: Box<[*const Counter; 64]>,
    /// The distance in counters from an arc to the counter of its fused operations.
    pub(crate) arcs_per_part: usize,
}

impl InlineState {
    pub(crate) fn new(
        declared: &[StageDeclaration],
        stages: &[LocalStage],
        counters: &ProcessorCounters,
    ) -> Self {
        let eligible = |(declared, stage): (&StageDeclaration, &LocalStage)| {
            let may_fuse = stage.parts.gate.is_none() && stage.parts.handler.is_none();
            may_fuse
                && !stage.cold.hold_policy.is_some()
                && stage.cold.end_of_cohort.is_none()
                && !declared.balanced
        };
        let eligible = StageSet::select(declared.iter().zip(stages), eligible);
        let bounded = StageSet::select(stages, |stage| stage.cold.capacity.is_some());
        let fusible = eligible.difference(bounded);
        let row =
            |n: usize| if n < stages.len() { counters.local_row(n) } else { std::ptr::null() };
        let chosen = StageSet::select(declared, |stage| stage.direct);
        Self {
            inline: Cell::new(chosen.intersection(eligible)),
            eligible,
            depth: Cell::new(0),
            fusible,
            fused: Cell::new(chosen.intersection(fusible)),
            budget: Cell::new(0),
            rows: Box::new(std::array::from_fn(row)),
            arcs_per_part: counters.arcs_per_part(),
        }
    }

    /// Selects the stages whose calls run inline. Stages that are not eligible are ignored.
    pub(crate) fn set_inline(&self, stages: StageSet) {
        self.inline.set(stages.intersection(self.eligible));
        self.fused.set(stages.intersection(self.fusible));
    }

    #[inline(always)]
    pub(crate) fn is_inline(&self, stage: u8) -> bool {
        self.inline.get().contains(stage.into())
    }

    /// Whether a child is running inline in its caller.
    pub(crate) fn is_nested(&self) -> bool {
        self.depth.get() > 0
    }

    /// Whether operations of `stage` are fused.
    #[inline(always)]
    pub(crate) fn is_fused(&self, stage: u8) -> bool {
        self.fused.get().contains(stage.into())
    }

    /// Resets the budget before an operation of a cohort is polled.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.budget.set(MAX_PER_POLL);
    }

    /// Takes one inline call from the budget of the operation being polled. Returns `false` if none is left.
    #[inline(always)]
    pub(crate) fn take_budget(&self) -> bool {
        match self.budget.get().checked_sub(1) {
            Some(left) => {
                self.budget.set(left);
                true
            }
            None => false,
        }
    }

    /// The row of counters of the arcs from a stage.
    #[inline(always)]
    pub(crate) fn row(&self, stage: u8) -> *const Counter {
        self.rows[usize::from(stage & 63)]
    }
}
