//! Control laws as pure functions of numbers. They measure nothing and change only their own state, so each can be
//! tested against a model.

pub(crate) mod adaptive_spin;
pub(crate) mod cohort_ladder;
pub(crate) mod credits;
pub(crate) mod election;
pub(crate) mod ingress;
pub(crate) mod interval_min;
pub(crate) mod placement;
pub(crate) mod profile;
pub(crate) mod relocation;
pub(crate) mod scaling;
mod spin_comparison;
pub(crate) mod take_overs;
