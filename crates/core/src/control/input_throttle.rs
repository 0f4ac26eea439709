//! Input throttle: postpones reaping I/O completions while a stage has a backlog.

use std::cell::Cell;

use crate::stage_set::StageSet;

/// The maximum number of consecutive turns without input. It bounds how long new input waits.
const MAX_CLOSED_TURNS: u32 = 3;

#[derive(Default)]
pub(crate) struct InputThrottle {
    /// Stages whose last cohort left operations in the queue.
    behind: Cell<StageSet>,
    /// Consecutive turns without input so far.
    closed: Cell<u32>,
}

impl InputThrottle {
    /// Records the end of a cohort of `stage`, and whether it left operations that it had found queued.
    #[inline(always)]
    pub(crate) fn cohort_ended(&self, stage: usize, left: bool) {
        let behind = self.behind.get();
        self.behind.set(if left { behind.with(stage) } else { behind.without(stage) });
    }

    /// Whether this turn skips input: a stage of `ready` has a backlog, and the limit of consecutive
    /// turns is not reached.
    #[inline(always)]
    pub(crate) fn is_closed(&self, ready: StageSet) -> bool {
        !self.behind.get().intersection(ready).is_empty() && self.closed.get() < MAX_CLOSED_TURNS
    }

    /// Begins a turn, with or without input.
    #[inline(always)]
    pub(crate) fn turn(&self, closed: bool) {
        self.closed.set(if closed { self.closed.get() + 1 } else { 0 });
    }
}
