//! The cohort tuner's state on one processor.

use std::cell::{Cell, RefCell};

use crate::control::cohort_ladder::CohortLadder;
use crate::stage::declaration::StageDeclaration;
use crate::stage::local::LocalStage;
use crate::stage::settings::Settings;
use crate::stage_set::StageSet;

/// The number of turns between two checks while no trial is in progress.
const TURNS_PER_CHECK: u32 = 256;
/// The length of arrays indexed by stage, at least [`MAX_STAGES`](crate::MAX_STAGES).
pub(crate) const MAX_STAGE_NUMBERS: usize = 64;
/// The share of operations at each stage.
pub(crate) type Shares = [f64; MAX_STAGE_NUMBERS];

/// The state of the cohort tuner, which tunes the stages that declare no cohort size.
pub(crate) struct TunerState {
    /// The tuned stages.
    pub(crate) stages: StageSet,
    /// The stages whose calls run inline on every rung.
    pub(crate) always_direct: StageSet,
    pub(crate) ladder: RefCell<CohortLadder>,
    /// The start of the current turn, and whether anything ran in the previous one.
    pub(crate) turn_start: Cell<u64>,
    pub(crate) ran: Cell<bool>,
    /// Turns until the next check.
    pub(crate) turns_until_check: Cell<u32>,
    /// The total time in nanoseconds, and the number, of the turns in this slice in which something ran.
    pub(crate) time: Cell<u64>,
    pub(crate) turns: Cell<u64>,
    /// The thread's CPU time when the slice began.
    pub(crate) cpu_at_slice_start: Cell<u64>,
    /// The operations that each stage had started when the slice began.
    pub(crate) started_at_slice_start: Cell<[u64; MAX_STAGE_NUMBERS]>,
    /// The shares of the stages, and the operations per turn, after the last trial.
    pub(crate) last_mix: Cell<Option<(Shares, f64)>>,
}

impl TunerState {
    pub(crate) fn new(
        declared: &[StageDeclaration],
        stages: &[LocalStage],
        settings: Settings,
    ) -> Self {
        // A stage that holds, or that handles whole cohorts, has a fixed size.
        let fixed =
            |stage: &LocalStage| stage.cold.hold_policy.is_some() || stage.parts.handler.is_some();
        let fixed = StageSet::select(stages, fixed);
        // Without counters there is nothing to measure.
        let tunes = settings.tunes_cohorts && cfg!(not(uncounted));
        let undeclared = StageSet::select(declared, |stage| tunes && stage.max_cohort.is_none());
        Self {
            stages: undeclared.difference(fixed),
            always_direct: StageSet::select(declared, |stage| stage.direct),
            ladder: RefCell::default(),
            turn_start: Cell::new(0),
            ran: Cell::new(false),
            turns_until_check: Cell::new(TURNS_PER_CHECK),
            time: Cell::new(0),
            turns: Cell::new(0),
            cpu_at_slice_start: Cell::new(0),
            started_at_slice_start: Cell::new([0; MAX_STAGE_NUMBERS]),
            last_mix: Cell::new(None),
        }
    }

    /// Schedules the next check. During a trial, every turn is checked.
    pub(crate) fn plan_check(&self, ladder: &CohortLadder) {
        self.turns_until_check.set(if ladder.is_trying() { 1 } else { TURNS_PER_CHECK });
    }

    /// Records the end of a turn.
    #[inline]
    pub(crate) fn record_turn(&self, ran: usize) {
        self.ran.set(ran > 0);
    }
}
