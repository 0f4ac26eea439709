//! The stages of a processor, and the sets of those that are ready or use a policy.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use crate::metrics::counters::ProcessorCounters;
use crate::stage::declaration::StageDeclaration;
use crate::stage::inline_state::InlineState;
use crate::stage::local::LocalStage;
use crate::stage::thresholds::Thresholds;
use crate::stage_set::StageSet;

pub(crate) struct Stages {
    local: Box<[LocalStage]>,
    /// Stages that have something to run.
    ready: Cell<StageSet>,
    pub(crate) thresholds: Thresholds,
    pub(crate) inline: InlineState,
    /// Stages with a hold policy.
    pub(crate) holding: StageSet,
    /// Stages whose operations other processors may steal.
    pub(crate) balanced: StageSet,
    /// Stages whose operations may be sent to the processor that has the state in its cache.
    pub(crate) affine: StageSet,
    /// Stages at which requests begin, if the program has a memory budget.
    pub(crate) entries: StageSet,
}

impl Stages {
    pub(crate) fn new(
        local: Box<[LocalStage]>,
        declared: &[StageDeclaration],
        counters: &ProcessorCounters,
    ) -> Self {
        Self {
            ready: Cell::default(),
            thresholds: Thresholds::new(&local),
            inline: InlineState::new(declared, &local, counters),
            holding: StageSet::select(&local, |stage| stage.cold.hold_policy.is_some()),
            balanced: StageSet::select(declared, |stage| stage.balanced),
            affine: StageSet::select(declared, |stage| stage.cache_affinity > 0),
            entries: StageSet::select(declared, |stage| stage.entry),
            local,
        }
    }

    /// Stages that have something to run.
    #[inline(always)]
    pub(crate) fn ready(&self) -> StageSet {
        self.ready.get()
    }

    #[inline(always)]
    pub(crate) fn set_ready(&self, stage: usize) {
        let ready = self.ready.get();
        if !ready.contains(stage) {
            self.ready.set(ready.with(stage));
        }
    }

    #[inline(always)]
    pub(crate) fn add_ready(&self, stages: StageSet) {
        self.ready.set(self.ready.get().union(stages));
    }

    #[inline(always)]
    pub(crate) fn clear_ready(&self, stage: usize) {
        self.ready.set(self.ready.get().without(stage));
    }
}

impl Deref for Stages {
    type Target = [LocalStage];

    #[inline(always)]
    fn deref(&self) -> &[LocalStage] {
        &self.local
    }
}

impl DerefMut for Stages {
    fn deref_mut(&mut self) -> &mut [LocalStage] {
        &mut self.local
    }
}
