//! The bounds of an exhaustive simulation, and its coverage.

use std::fmt;

/// Bounds of an exhaustive simulation ([`explore_all`](super::explore_all)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// The most steps of a run; 1,000 by default. A longer run is cut.
    pub steps: u64,
    /// The most runs; 100,000 by default.
    pub runs: u64,
    /// The largest cohort; 1 by default. Larger ones matter to [cohort
    /// operations](crate::stage::Cohort), and multiply the number of schedules. Coverage is that of schedules without
    /// larger ones.
    pub cohort: usize,
    /// The most choices other than the default in one run; all by default. The default choice continues with
    /// the same processor and its first ready stage. Many faults need only one or two other choices.
    pub deviations: Option<usize>,
    /// Whether time may pass while operations are ready, so that timeouts fire early. Off by default: time
    /// passes when nothing else can happen, and coverage is that of these schedules.
    pub early_timers: bool,
    /// Whether schedules are merged that differ only in the order of independent steps; on by default.
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
    /// Different states between two steps.
    pub states: u64,
    /// Runs that ended in a state that an earlier run had reached.
    pub merged: u64,
    /// Runs that ended at [`Bounds::steps`].
    pub cut: u64,
    /// Options that were not taken because of [`Bounds::deviations`].
    pub skipped: u64,
    /// The most choices in one run.
    pub deepest: usize,
    /// Whether the search ended before [`Bounds::runs`].
    pub ended: bool,
}

impl Coverage {
    /// Whether every schedule with cohorts of at most [`Bounds::cohort`], and with early timers only if
    /// [`Bounds::early_timers`] is set, was explored: no other bound had an effect.
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
            Self { ended: false, .. } => f.write_str("ended at the bound of runs"),
            Self { cut, skipped, .. } => {
                write!(f, "within the bounds: {cut} runs cut, {skipped} options skipped")
            }
        }
    }
}
