//! State of the running cohort; empty between cohorts.

use crate::operation::interleave_ring::InterleaveRing;
use crate::stage::batching::BatchState;

#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) interleaved: InterleaveRing,
    pub(crate) batching: BatchState,
}
