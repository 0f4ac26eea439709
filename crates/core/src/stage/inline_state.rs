//! Inline calls: the stages whose calls a processor runs in their callers.
//!
//! # Safety
//! The processor owns the counters that [`InlineState`] points to and keeps them as long as it lives.
//! They have a row for each stage of its graph. Stages come from checked keys, so their rows exist. Each
//! row of arcs has a second row of the same length, [`InlineState::beyond`] counters after it, and a third
//! one after that ([`ProcessorCounters::arcs`]).

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
    stages: Cell<StageSet>,
    /// The stages whose calls may run inline.
    able: StageSet,
    /// The stages of `able` whose operations may become a part of their callers.
    plain: StageSet,
    /// The stages of `stages` whose operations become a part of their callers.
    inside: Cell<StageSet>,
    pub(crate) depth: Cell<u32>,
    /// The number of inline calls left to the operation being polled.
    left: Cell<u32>,
    /// The row of arcs of each stage. The array has 64 rows, so that no stage number is out of bounds.
    rows: Box<[*const Counter; 64]>,
    /// The distance from an arc to the counter of its operations that became a part of their callers.
    pub(crate) beyond: usize,
}

impl InlineState {
    pub(crate) fn new(
        declared: &[StageDeclaration],
        stages: &[LocalStage],
        counters: &ProcessorCounters,
    ) -> Self {
        let able = |(declared, stage): (&StageDeclaration, &LocalStage)| {
            let alone = stage.parts.gate.is_none() && stage.parts.handler.is_none();
            alone
                && !stage.cold.hold_policy.is_some()
                && stage.cold.end_of_cohort.is_none()
                && !declared.balanced
        };
        let able = StageSet::select(declared.iter().zip(stages), able);
        let bounded = StageSet::select(stages, |stage| stage.cold.capacity.is_some());
        let plain = able.difference(bounded);
        let row =
            |n: usize| if n < stages.len() { counters.local_row(n) } else { std::ptr::null() };
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

    /// Selects the stages whose calls run inline, as far as they may.
    pub(crate) fn choose(&self, stages: StageSet) {
        self.stages.set(stages.intersection(self.able));
        self.inside.set(stages.intersection(self.plain));
    }

    #[inline(always)]
    pub(crate) fn has(&self, stage: u8) -> bool {
        self.stages.get().contains(stage.into())
    }

    /// Whether a child is running inline in its caller.
    pub(crate) fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// Whether operations of `stage` become a part of their callers.
    #[inline(always)]
    pub(crate) fn has_inside(&self, stage: u8) -> bool {
        self.inside.get().contains(stage.into())
    }

    /// Resets the limit before an operation of a cohort is polled.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.left.set(MAX_PER_POLL);
    }

    /// Takes one inline call from the limit of the operation being polled. False if none is left.
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

    /// The row of counters of the arcs from a stage.
    #[inline(always)]
    pub(crate) fn row(&self, stage: u8) -> *const Counter {
        self.rows[usize::from(stage & 63)]
    }
}
