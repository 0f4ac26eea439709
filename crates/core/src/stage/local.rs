//! What a stage has asked for that is looked at once a cohort, or less; and what is noted as often.

use std::cell::Cell;

use crate::future::capacity::Capacity;
use crate::handle::graph::Declared;
use crate::operation::slot::VTable;
use crate::processor::batch::EndOfCohort;
use crate::processor::policy::hold::Filling;
use crate::processor::policy::threshold::Threshold;
use crate::stage::queue_delay::Smallest;

/// What a stage has asked for that is looked at once a cohort, or less.
pub(crate) struct Rules {
    pub(crate) threshold: Threshold,
    pub(crate) filling: Filling,
    pub(crate) capacity: Capacity,
    pub(crate) end_of_cohort: Option<EndOfCohort>,
    /// Since when parcels wait here, as far as was looked.
    pub(crate) parcels_since: Cell<Option<u64>>,
    /// Whether the last cohort that found parcels and local operations began with parcels.
    pub(crate) parcels_first: Cell<bool>,
    /// The widest class of its operations, as far as was looked.
    pub(crate) class: Cell<u8>,
    /// The type of operation that was last seen to be its oldest.
    pub(crate) seen: Cell<&'static VTable>,
    /// Bytes that a request of it has beside the operation.
    pub(crate) beside: usize,
    /// How long its cohorts of this interval have found work waiting.
    pub(crate) waits: Smallest,
}

impl Rules {
    pub(crate) fn new(declared: &Declared) -> Self {
        Self {
            threshold: declared.threshold,
            filling: declared.filling,
            capacity: Capacity::new(declared.capacity),
            end_of_cohort: declared.end_of_cohort.clone(),
            parcels_since: Cell::new(None),
            parcels_first: Cell::new(false),
            class: Cell::new(0),
            seen: Cell::new(&VTable::NONE),
            beside: declared.objects.iter().map(|(_, bytes)| bytes).sum(),
            waits: Smallest::default(),
        }
    }
}
