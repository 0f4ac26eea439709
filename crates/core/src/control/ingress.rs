//! Ingress: the mechanism that limits the work entering a processor.
//!
//! One mode applies at a time, so the mechanisms need no exceptions for each other.
//!
//! | mode | limit | applies |
//! |---|---|---|
//! | throttle | completed I/O is not reaped while a stage has a backlog | by default |
//! | admit | a request without a credit is rejected | once the processor has an [admission](crate::Admission) with a target |
//! | budget | an entry begins requests only while those in progress fit the cache | in a graph with [entries](crate::StageOptions::entry) |
//!
//! Only the throttle leaves input in the kernel. An admission must see all requests to reject them early, and
//! requests that exceed a budget wait in the queue of their entry.
//!
//! Two further bounds protect memory in every mode: the
//! [operations of a processor](crate::Graph::max_operations) and the
//! [queue of a stage](crate::StageOptions::capacity).

use std::cell::Cell;

use crate::stage_set::StageSet;

/// The maximum number of consecutive turns without input. It bounds how long new input waits.
const MAX_CLOSED_TURNS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Throttle,
    Admit,
    Budget,
}

pub(crate) struct Ingress {
    mode: Cell<Mode>,
    /// Stages whose last cohort left operations in the queue.
    behind: Cell<StageSet>,
    /// Consecutive turns without input so far.
    closed: Cell<u32>,
}

impl Ingress {
    /// The ingress of a processor with these entries.
    pub(crate) fn new(entries: StageSet) -> Self {
        let mode = if entries.is_empty() { Mode::Throttle } else { Mode::Budget };
        Self { mode: Cell::new(mode), behind: Cell::default(), closed: Cell::new(0) }
    }

    /// Records that the processor has an admission that may reject requests.
    pub(crate) fn admit(&self) {
        if self.mode.get() == Mode::Throttle {
            self.mode.set(Mode::Admit);
        }
    }

    /// Whether entries begin requests by a budget.
    #[inline(always)]
    pub(crate) fn has_budget(&self) -> bool {
        self.mode.get() == Mode::Budget
    }

    /// Records the end of a cohort of `stage`, and whether it left operations that it had found queued.
    #[inline(always)]
    pub(crate) fn cohort_ended(&self, stage: usize, left: bool) {
        let behind = self.behind.get();
        self.behind.set(if left { behind.with(stage) } else { behind.without(stage) });
    }

    /// Whether input stays in the kernel: a stage of `ready` has a backlog, and the limit of consecutive
    /// turns is not reached.
    #[inline(always)]
    pub(crate) fn is_closed(&self, ready: StageSet) -> bool {
        self.mode.get() == Mode::Throttle
            && !self.behind.get().intersection(ready).is_empty()
            && self.closed.get() < MAX_CLOSED_TURNS
    }

    /// Begins a turn. Returns whether it reaps input.
    #[inline(always)]
    pub(crate) fn begin_turn(&self, ready: StageSet) -> bool {
        let closed = self.is_closed(ready);
        self.closed.set(if closed { self.closed.get() + 1 } else { 0 });
        !closed
    }
}
