//! The files of a store: names, permissions, sources, reserved space.

pub(crate) mod names;
pub(crate) mod private;
pub(crate) mod reserve;
pub(crate) mod source;
