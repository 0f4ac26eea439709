//! The observable state of a processor: counters, operation types, reports of panics.

use std::cell::RefCell;
use std::sync::Arc;

use crate::metrics::counters::ProcessorCounters;
use crate::panic::PanicReport;
use crate::stage::seen_types::SeenTypes;

pub(crate) struct Observe {
    pub(crate) counters: Arc<ProcessorCounters>,
    pub(crate) types: SeenTypes,
    /// Panics that have not been reported to the world.
    pub(crate) panics: RefCell<Vec<PanicReport>>,
}

impl Observe {
    pub(crate) fn new(counters: Arc<ProcessorCounters>) -> Self {
        Self { counters, types: SeenTypes::default(), panics: RefCell::default() }
    }
}
