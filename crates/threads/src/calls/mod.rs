//! The replaced functions of the C library.

mod c11;
pub(crate) mod descriptors;
pub(crate) mod locks;
pub(crate) mod threads;
