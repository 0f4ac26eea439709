//! Which stage runs next, and how many of its operations.

pub(crate) mod coalesce;
pub(crate) mod cohort_tuner;
pub(crate) mod hold;
pub(crate) mod memory_budget;
pub(crate) mod threshold;
