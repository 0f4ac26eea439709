//! The parts of a processor. Each owns its fields; only its own methods write them.

pub(crate) mod current;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod observe;
pub(crate) mod scratch;
pub(crate) mod stages;
pub(crate) mod waiting;
