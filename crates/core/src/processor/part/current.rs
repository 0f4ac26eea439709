//! The operation, stage and time that a processor is working on.

use std::cell::Cell;

use crate::metrics::counter::Counter;
use crate::operation::slot::Slot;

pub(crate) struct Current {
    /// The time of the running cohort, in the clock's nanoseconds.
    now: Cell<u64>,
    /// The operation that is being polled. It remains set until the next poll or the end of the cohort.
    running: Cell<Option<Slot>>,
    /// The first counter of the running stage's row of arcs.
    arc_row: Cell<*const Counter>,
    /// Whether a turn is in progress.
    in_turn: Cell<bool>,
}

impl Default for Current {
    fn default() -> Self {
        Self {
            now: Cell::new(0),
            running: Cell::new(None),
            arc_row: Cell::new(std::ptr::null()),
            in_turn: Cell::new(false),
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

    /// Sets the time, and returns it.
    #[inline(always)]
    pub(crate) fn set_now(&self, now: u64) -> u64 {
        self.now.set(now);
        now
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

    /// Counts invocations in another row of arcs from now on. Returns the previous row.
    #[inline(always)]
    pub(crate) fn set_arc_row(&self, row: *const Counter) -> *const Counter {
        self.arc_row.replace(row)
    }

    /// Begins a turn. Turns of one processor do not nest.
    pub(crate) fn begin_turn(&self) -> TurnGuard<'_> {
        assert!(!self.in_turn.replace(true), "a turn of a processor began inside its own turn");
        TurnGuard(&self.in_turn)
    }
}
