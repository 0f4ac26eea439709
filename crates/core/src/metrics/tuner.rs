//! The state of a processor's cohort tuner, for readers on other threads.

use crate::control::cohort_ladder::{CohortLadder, RUNGS};
use crate::metrics::counter::Counter;

/// The published counters of a processor's cohort tuner.
#[derive(Default, Debug)]
pub(crate) struct TunerCounters {
    /// The rung in use; zero before the first trial.
    pub(crate) rung: Counter,
    pub(crate) kept: Counter,
    pub(crate) trials: Counter,
    pub(crate) trying: Counter,
    /// Picoseconds per operation, by rung.
    pub(crate) costs: [Counter; RUNGS.len()],
}

/// The state of a processor's cohort tuner; see [`Graph::tune_cohorts`](crate::Graph::tune_cohorts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CohortTunerView {
    /// The rung in use: the maximum cohort size of the stages that declare none. At 1, their calls run
    /// inline in their callers. Zero before the first trial.
    pub rung: u64,
    /// The rung chosen by the last trial; zero before the first one ends.
    pub kept: u64,
    /// The number of completed trials.
    pub trials: u64,
    /// Whether a trial is in progress.
    pub trying: bool,
    /// The cost of each rung (1, 8, 32, 64, 128, 256, 512) in the current or last trial, in picoseconds
    /// per operation. Zero for rungs that were not measured.
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
        self.kept.set(size(ladder.chosen()));
        self.trials.set(ladder.trials());
        self.trying.set(ladder.is_trying().into());
        for (counter, cost) in self.costs.iter().zip(ladder.costs()) {
            counter.set(cost.map_or(0, |cost| (cost * 1000.0) as u64));
        }
    }
}
