pub(crate) mod exclusive;
pub(crate) mod partition;
pub(crate) mod rebuildable;
