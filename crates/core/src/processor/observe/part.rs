//! The observable state of a processor.

use std::cell::RefCell;
use std::sync::Arc;

use crate::metrics::counters::ProcessorCounters;
use crate::metrics::operation_types::MAX_TYPES;
use crate::operation::slot::VTable;
use crate::panic::PanicReport;

/// A report that is passed to the world at the end of the cohort.
pub(crate) enum Unreported {
    Panic(PanicReport),
    Object { stage: u8, object: &'static str, bytes: usize, declared: usize },
}

/// The observable state of a processor.
pub(crate) struct Observe {
    pub(crate) counters: Arc<ProcessorCounters>,
    /// The recorded operation types, by stage and vtable.
    types: RefCell<Vec<(u8, &'static VTable)>>,
    /// Reports that have not been passed to the world.
    reports: RefCell<Vec<Unreported>>,
}

impl Observe {
    pub(crate) fn new(counters: Arc<ProcessorCounters>) -> Self {
        Self { counters, types: RefCell::default(), reports: RefCell::default() }
    }

    /// Records an operation type of a stage. Returns `false` if it has already been recorded or the list is full.
    pub(crate) fn add_type(&self, stage: u8, vtable: &'static VTable) -> bool {
        let mut types = self.types.borrow_mut();
        let known = |(of, known): &(u8, &VTable)| *of == stage && std::ptr::eq(*known, vtable);
        let is_new = types.len() < MAX_TYPES && !types.iter().any(known);
        if is_new {
            types.push((stage, vtable));
        }
        is_new
    }

    /// Stores a report until the end of the cohort.
    pub(crate) fn report(&self, report: Unreported) {
        self.reports.borrow_mut().push(report);
    }

    #[inline]
    pub(crate) fn has_reports(&self) -> bool {
        !self.reports.borrow().is_empty()
    }

    pub(crate) fn take_reports(&self) -> Vec<Unreported> {
        self.reports.take()
    }
}
