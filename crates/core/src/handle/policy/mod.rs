//! Handles and declarations of optional mechanisms.

pub(crate) mod calls;
pub(crate) mod cohort;
pub(crate) mod custom;
pub(crate) mod items;
pub(crate) mod migration;
pub(crate) mod rebuild_options;
pub(crate) mod remake;
pub(crate) mod replicated;
pub(crate) mod roaming;
pub(crate) mod run_inline;
pub(crate) mod serial_cohort;
mod stage_options;
pub(crate) mod stateless;
pub(crate) mod take_over;
