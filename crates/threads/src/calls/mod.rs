//! The replaced functions of the C library.

mod descriptors;
pub(crate) mod locks;
pub(crate) mod threads;
