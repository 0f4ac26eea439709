//! Optional mechanisms: each is off unless a stage or a graph asks for it.

pub(crate) mod batch;
pub(crate) mod cache_affinity;
pub(crate) mod cohort_tuner;
pub(crate) mod hold;
pub(crate) mod holders;
pub(crate) mod inline;
pub(crate) mod interleave;
pub(crate) mod interleave_ring;
pub(crate) mod memory_budget;
pub(crate) mod prefetch_next;
pub(crate) mod replicas;
pub(crate) mod steal;
pub(crate) mod take_over;
pub(crate) mod threshold;
