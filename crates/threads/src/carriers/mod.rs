//! The kernel threads of this library: carriers, and the monitor that watches them.

pub(crate) mod carrier;
pub(crate) mod interrupt;
pub(crate) mod monitor;
