//! One connection to the server.

mod exchange;
mod inbox;
mod link;
mod prepared;
pub(crate) mod session;
mod startup;
mod wire;
