//! Input throttle: whether a turn takes in completions while a stage has a backlog.

use std::cell::Cell;

use crate::stage_set::StageSet;

/// Turns in a row in which nothing is taken in. With cohorts of a tenth of a millisecond, who comes waits for half of one.
const MAX_CLOSED_TURNS: u32 = 3;

#[derive(Default)]
pub(crate) struct InputThrottle {
    /// Stages whose last cohort has left something.
    behind: Cell<StageSet>,
    /// For how many turns nothing was taken in.
    closed: Cell<u32>,
}

impl InputThrottle {
    /// A cohort of `stage` is over, and has left some of those that it found, or not.
    #[inline(always)]
    pub(crate) fn cohort_ended(&self, stage: usize, left: bool) {
        let behind = self.behind.get();
        self.behind.set(if left { behind.with(stage) } else { behind.without(stage) });
    }

    /// Whether input waits outside now: a stage of `ready` has a backlog, and not too many turns have
    /// passed without input.
    #[inline(always)]
    pub(crate) fn is_closed(&self, ready: StageSet) -> bool {
        !self.behind.get().intersection(ready).is_empty() && self.closed.get() < MAX_CLOSED_TURNS
    }

    /// A turn begins, with input or without.
    #[inline(always)]
    pub(crate) fn turn(&self, closed: bool) {
        self.closed.set(if closed { self.closed.get() + 1 } else { 0 });
    }
}
