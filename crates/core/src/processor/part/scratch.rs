//! State of the cohort that runs; empty between cohorts.

use crate::operation::interleave_ring::InterleaveRing;
use crate::stage::batching::BatchState;

#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) interleaved: InterleaveRing,
    pub(crate) batching: BatchState,
}
