//! What a processor's cohort tuner has found, for other threads to read.

use crate::control::cohort_ladder::{CohortLadder, RUNGS};
use crate::metrics::counter::Counter;

/// What a processor's ladder has found, for others to read.
#[derive(Default, Debug)]
pub(crate) struct TunerCounters {
    /// The rung in use; zero before the first trial.
    pub(crate) rung: Counter,
    pub(crate) kept: Counter,
    pub(crate) trials: Counter,
    pub(crate) trying: Counter,
    /// Picoseconds for an operation.
    pub(crate) costs: [Counter; RUNGS.len()],
}

/// What a processor's ladder has found; see [`Graph::tune_cohorts`](crate::Graph::tune_cohorts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CohortTunerView {
    /// The rung in use: the most operations in a cohort of the stages that declare none; at 1 their
    /// calls run inside of their callers. Zero before the first trial.
    pub rung: u64,
    /// The rung that the last trial has kept; zero before it.
    pub kept: u64,
    /// Trials that are over.
    pub trials: u64,
    /// Whether one is under way.
    pub trying: bool,
    /// What each rung (1, 8, 32, 64, 128, 256, 512) cost in the trial that is under way or the
    /// last: picoseconds for an operation. Zero for those not tried.
    pub costs_ps: [u64; RUNGS.len()],
}

impl TunerCounters {
    pub(crate) fn view(&self) -> CohortTunerView {
        CohortTunerView {
            rung: self.rung.get(),
            kept: self.kept.get(),
            trials: self.trials.get(),
            trying: self.trying.get() > 0,
            costs_ps: std::array::from_fn(|rung| self.costs[rung].get()),
        }
    }

    pub(crate) fn note(&self, ladder: &CohortLadder) {
        let size = |rung: Option<usize>| rung.map_or(0, |rung| RUNGS[rung] as u64);
        self.rung.set(size(ladder.rung()));
        self.kept.set(size(ladder.kept()));
        self.trials.set(ladder.trials());
        self.trying.set(ladder.is_trying().into());
        for (counter, cost) in self.costs.iter().zip(ladder.costs()) {
            counter.set(cost.map_or(0, |cost| (cost * 1000.0) as u64));
        }
    }
}
