//! The choice of the next stage and of the number of its operations to run.

pub(crate) mod coalesce;
pub(crate) mod cohort_tuner;
pub(crate) mod hold;
pub(crate) mod memory_budget;
pub(crate) mod threshold;
