//! What one client may not do to the others.

pub(crate) mod descriptors;
