//! What a processor runs now.

use std::cell::Cell;

use crate::metrics::counter::Counter;
use crate::operation::slot::Slot;

pub(crate) struct Current {
    /// The time of the running cohort, in the clock's nanoseconds.
    now: Cell<u64>,
    /// The operation that is being polled. Stays until the next one is, or the cohort is over.
    running: Cell<Option<Slot>>,
    /// Where the arcs of the stage whose cohort runs begin in the counters.
    arc_row: Cell<*const Counter>,
    /// Whether a turn is in progress.
    turning: Cell<bool>,
}

impl Default for Current {
    fn default() -> Self {
        Self {
            now: Cell::new(0),
            running: Cell::new(None),
            arc_row: Cell::new(std::ptr::null()),
            turning: Cell::new(false),
        }
    }
}

/// A turn in progress.
pub(crate) struct TurnGuard<'a>(&'a Cell<bool>);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Current {
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    #[inline(always)]
    pub(crate) fn set_now(&self, now: u64) {
        self.now.set(now);
    }

    #[inline(always)]
    pub(crate) fn running(&self) -> Option<Slot> {
        self.running.get()
    }

    #[inline(always)]
    pub(crate) fn set_running(&self, slot: Option<Slot>) {
        self.running.set(slot);
    }

    pub(crate) fn take_running(&self) -> Option<Slot> {
        self.running.take()
    }

    #[inline(always)]
    pub(crate) fn arc_row(&self) -> *const Counter {
        self.arc_row.get()
    }

    /// Counts invocations by another row of arcs from now on. Returns the row before.
    #[inline(always)]
    pub(crate) fn set_arc_row(&self, row: *const Counter) -> *const Counter {
        self.arc_row.replace(row)
    }

    /// Begins a turn: the state of one turn is not made for another inside of it.
    pub(crate) fn begin_turn(&self) -> TurnGuard<'_> {
        assert!(!self.turning.replace(true), "a processor's turn runs inside its own turn");
        TurnGuard(&self.turning)
    }
}
