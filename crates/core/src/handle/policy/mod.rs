//! Handles and declarations of optional mechanisms.

pub(crate) mod cohort;
pub(crate) mod custom;
pub(crate) mod handle_set;
pub(crate) mod moving;
pub(crate) mod rebuild_options;
pub(crate) mod remake;
pub(crate) mod replicated;
pub(crate) mod run_fused;
mod stage_options;
pub(crate) mod stateless;
