//! The state of a socket, and its multishot operations, which have a bound on running ahead.

pub(crate) mod accept;
pub(crate) mod receive;
pub(crate) mod state;
