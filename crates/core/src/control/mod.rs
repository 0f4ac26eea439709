pub(crate) mod adaptive_spin;
pub(crate) mod cohort_ladder;
pub(crate) mod credits;
