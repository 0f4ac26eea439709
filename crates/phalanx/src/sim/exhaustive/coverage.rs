//! The bounds of an exhaustive simulation, and its coverage.

use std::fmt;

/// Bounds of an exhaustive simulation ([`explore_all`](super::explore_all)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Maximum number of steps of a run; 1,000 by default. A longer run is cut.
    pub steps: u64,
    /// Maximum number of runs; 100,000 by default.
    pub runs: u64,
    /// Maximum size of a cohort; 1 by default. Larger cohorts matter to [cohort operations](crate::stage::Cohort), and
    /// multiply the number of schedules. Coverage then refers to schedules whose cohorts are at most this large.
    pub cohort: usize,
    /// Maximum number of non-default choices per run; unlimited by default. The default choice continues with
    /// the same processor and its first ready stage. Many faults need only one or two other choices.
    pub deviations: Option<usize>,
    /// Whether time may pass while operations are ready, so that timeouts fire early. Off by default: time
    /// passes only when nothing else can happen, and coverage refers to those schedules only.
    pub early_timers: bool,
    /// Whether to merge schedules that differ only in the order of independent steps; on by default.
    pub merges: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            steps: 1_000,
            runs: 100_000,
            cohort: 1,
            deviations: None,
            early_timers: false,
            merges: true,
        }
    }
}

/// Coverage of an exhaustive simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Runs, including those that were merged or cut.
    pub runs: u64,
    /// Distinct states observed between steps.
    pub states: u64,
    /// Runs that ended in a state that an earlier run had reached.
    pub merged: u64,
    /// Runs that ended at [`Bounds::steps`].
    pub cut: u64,
    /// Options that were not taken because of [`Bounds::deviations`].
    pub skipped: u64,
    /// Maximum number of choices in one run.
    pub deepest: usize,
    /// Whether the search ended before [`Bounds::runs`].
    pub ended: bool,
}

impl Coverage {
    /// Whether the search was exhaustive: apart from [`Bounds::cohort`] and [`Bounds::early_timers`], no bound cut it
    /// short.
    pub fn is_complete(&self) -> bool {
        self.ended && self.cut == 0 && self.skipped == 0
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, states, merged, deepest, .. } = self;
        write!(f, "{runs} runs ({merged} merged), {states} states, at most {deepest} choices; ")?;
        match self {
            _ if self.is_complete() => f.write_str("all schedules explored"),
            Self { ended: false, .. } => f.write_str("stopped at the limit on runs"),
            Self { cut, skipped, .. } => {
                write!(f, "within the bounds: {cut} runs cut, {skipped} options skipped")
            }
        }
    }
}
