//! Waiting threads: the parking table by address or descriptor, the timers, and the wait itself.

pub(crate) mod ends;
pub(crate) mod key;
#[cfg(all(loom, test))]
mod model;
pub(crate) mod park;
pub(crate) mod table;
pub(crate) mod timers;
