//! What one client may not do to the others.

pub(crate) mod addresses;
pub(crate) mod descriptors;
