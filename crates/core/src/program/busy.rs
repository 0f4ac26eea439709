//! Whether a processor has work, as the end of its program needs it.

use std::cell::Cell;
use std::sync::Arc;

use crate::program::program::Program;

/// Busy guard: one processor's share of the busy count. The processor counts as busy from the beginning
/// until it marks itself as idle, and stops counting when the guard is dropped. A processor that is
/// never built, or fails, thus does not keep the others from shutting down.
pub(crate) struct BusyGuard {
    program: Arc<Program>,
    busy: Cell<bool>,
}

impl BusyGuard {
    pub(crate) fn new(program: Arc<Program>) -> Self {
        Self { program, busy: Cell::new(true) }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Marks the processor as busy, before other processors can observe its work.
    pub(crate) fn mark_busy(&self) {
        if !self.busy.replace(true) {
            self.program.processor_busy();
        }
    }

    pub(crate) fn mark_idle(&self) {
        if self.busy.replace(false) {
            self.program.processor_idle();
        }
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.mark_idle();
    }
}
