//! What one processor knows of the stages whose cohort sizes it tunes.

use std::cell::{Cell, RefCell};

use crate::control::cohort_ladder::CohortLadder;
use crate::stage::cohort_defaults::CohortDefaults;
use crate::stage::declaration::StageDeclaration;
use crate::stage::local::LocalStage;
use crate::stage_set::StageSet;

/// Turns between two looks while a rung rests.
pub(crate) const LOOK: u32 = 256;
/// More than there are stages.
pub(crate) const STAGES: usize = 64;
/// What part of the operations is at which stage.
pub(crate) type Shares = [f64; STAGES];

/// What one processor knows of the stages that leave their cohorts to it.
pub(crate) struct TunerState {
    /// A bit each.
    pub(crate) stages: StageSet,
    /// Those whose calls are run inside of their callers whatever the rung.
    pub(crate) always_direct: StageSet,
    pub(crate) cache: usize,
    pub(crate) ladder: RefCell<CohortLadder>,
    /// When the turn began, and whether anything ran in the one before it.
    pub(crate) turn_began: Cell<u64>,
    pub(crate) ran: Cell<bool>,
    /// Turns until the next look.
    pub(crate) until_look: Cell<u32>,
    /// Of this slice: nanoseconds and turns in which something ran.
    pub(crate) time: Cell<u64>,
    pub(crate) turns: Cell<u64>,
    /// How long the thread had worked when it began.
    pub(crate) worked: Cell<u64>,
    /// What each stage had started when the slice began.
    pub(crate) before: Cell<[u64; STAGES]>,
    /// The shares of the stages, and the operations of a turn, after the last trial.
    pub(crate) known: Cell<Option<(Shares, f64)>>,
}

impl TunerState {
    pub(crate) fn new(
        declared: &[StageDeclaration],
        stages: &[LocalStage],
        cohorts: CohortDefaults,
    ) -> Self {
        // Who waits for a cohort of some size, or handles it as a whole, has said what is good.
        let said =
            |stage: &LocalStage| stage.runtime.hold_policy.is_some() || stage.local.batch.is_some();
        let said = StageSet::select(stages, said);
        // What is not counted cannot be measured.
        let found = cohorts.found && cfg!(not(uncounted));
        let left = StageSet::select(declared, |stage| found && stage.max_cohort.is_none());
        Self {
            stages: left.difference(said),
            always_direct: StageSet::select(declared, |stage| stage.direct),
            cache: cohorts.cache(),
            ladder: RefCell::default(),
            turn_began: Cell::new(0),
            ran: Cell::new(false),
            until_look: Cell::new(LOOK),
            time: Cell::new(0),
            turns: Cell::new(0),
            worked: Cell::new(0),
            before: Cell::new([0; STAGES]),
            known: Cell::new(None),
        }
    }

    /// A turn is over.
    #[inline]
    pub(crate) fn turned(&self, ran: usize) {
        self.ran.set(ran > 0);
    }
}
