//! Running a processor: its loop, its turns, and the cohorts of a turn.

pub(crate) mod cohort;
pub(crate) mod cohort_stats;
pub(crate) mod ingress;
pub(crate) mod operations;
pub(crate) mod turn;
