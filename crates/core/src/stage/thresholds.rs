//! The thresholds of a processor's stages.

use std::cell::Cell;

use crate::stage::local::LocalStage;
use crate::stage_set::StageSet;

/// What a processor keeps of its stages' thresholds.
pub(crate) struct Thresholds {
    /// The stages that have one, a bit each.
    pub(crate) stages: StageSet,
    /// Whether any of them is an age.
    pub(crate) aged: bool,
    /// The stage after the one that interrupted last: none is always the first to be served.
    pub(crate) next: Cell<usize>,
    /// Whether the cohort that runs has interrupted another.
    pub(crate) interrupting: Cell<bool>,
}

impl Thresholds {
    pub(crate) fn new(stages: &[LocalStage]) -> Self {
        Self {
            stages: StageSet::select(stages, |stage| stage.runtime.threshold.is_some()),
            aged: stages.iter().any(|stage| stage.runtime.threshold.has_age()),
            next: Default::default(),
            interrupting: Default::default(),
        }
    }
}
