//! The choice of the processor for operations that may run on several.

pub(crate) mod cache_affinity;
pub(crate) mod steal;
pub(crate) mod take_over;
