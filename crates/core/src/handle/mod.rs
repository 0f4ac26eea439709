//! Declaring a graph, and the typed handles through which its stages are invoked.

pub(crate) mod cohort;
pub(crate) mod custom;
pub(crate) mod graph;
pub(crate) mod items;
pub(crate) mod local;
pub(crate) mod migration;
pub(crate) mod partitioned;
pub(crate) mod rebuild_options;
pub(crate) mod remake;
pub(crate) mod roaming;
pub(crate) mod run_inline;
pub(crate) mod serial_cohort;
pub(crate) mod stage;
pub(crate) mod stage_options;
