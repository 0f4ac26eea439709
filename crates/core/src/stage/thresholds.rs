//! The thresholds of a processor's stages.

use std::cell::Cell;

use crate::stage::local::LocalStage;
use crate::stage_set::StageSet;

/// The state of the thresholds of a processor's stages.
pub(crate) struct Thresholds {
    /// The stages that have a threshold.
    pub(crate) stages: StageSet,
    /// Whether any threshold is an age.
    pub(crate) aged: bool,
    /// The stage after the last one that preempted. The search for overdue stages starts here (round-robin), so that no
    /// stage is always served first.
    pub(crate) next: Cell<usize>,
    /// Whether the running cohort has preempted another.
    pub(crate) interrupting: Cell<bool>,
}

impl Thresholds {
    pub(crate) fn new(stages: &[LocalStage]) -> Self {
        Self {
            stages: StageSet::select(stages, |stage| stage.cold.threshold.is_some()),
            aged: stages.iter().any(|stage| stage.cold.threshold.has_age()),
            next: Default::default(),
            interrupting: Default::default(),
        }
    }
}
