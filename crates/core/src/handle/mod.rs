//! The declaration of a graph, and the typed handles that invoke operations on its stages.

mod declare;
pub(crate) mod graph;
pub(crate) mod local;
pub(crate) mod partitioned;
pub(crate) mod policy;
pub(crate) mod stage;
pub(crate) mod stage_options;
